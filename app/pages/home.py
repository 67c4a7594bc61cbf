"""Home: is it learning, what does this computer add, who else is here."""

from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.context import Context
from app.format import DASH, clock, count, loss, percent, rate, size, whole
from app.language import say
from app.models.peers import PeersModel, ordered
from app.pages.page import Page
from app.state.throttle import Throttle
from app.widgets.card import Card
from app.widgets.columns import Columns
from app.widgets.empty import EmptyState
from app.widgets.figure import Figure
from app.widgets.loss_chart import ChartKey, LossChart, PlotLoader
from app.widgets.meter import Meter
from app.widgets.table import Table
from app.widgets.text import Text
from app.widgets.welcome import Welcome
from app.widgets.written import WrittenCard
from engine.contract.snapshot import RoundInfo, SessionState, Today

CURVE_MILLISECONDS = 250
FIGURES_MILLISECONDS = 100
WIDE = 760


class HomePage(Page):
    """Figures, learning curve, sample, other computers; a welcome while no project is joined."""

    def __init__(self, context: Context, loader: PlotLoader, parent: QWidget | None = None) -> None:
        super().__init__(context, say("pages", "Home"), parent=parent)
        self.today = Figure(say("home", "Trained here today"))
        self.rounds = Figure(say("home", "Rounds"))
        self.pace = Figure(say("home", "Pace"))
        self.next_round = Figure(say("home", "Next round"))
        self.gathered = Meter(context.theme, say("home", "Gathered for the next round"))
        self.chart = LossChart(context.theme, loader)
        self.losses = Text(role="strong")
        self.written = WrittenCard(context.theme)
        self.peers_model = PeersModel(context.theme, self)
        self._build()
        self._connect()
        self.show_session()
        self.show_curve()

    def _build(self) -> None:
        next_holder = QWidget()
        stack = QVBoxLayout(next_holder)
        stack.setContentsMargins(0, 0, 0, 0)
        stack.setSpacing(8)
        stack.addWidget(self.next_round)
        stack.addWidget(self.gathered)
        figures = Card()
        figures.setAccessibleName(say("home", "Figures"))
        row = [self.today, self.rounds, self.pace, next_holder]
        figures.body.addWidget(Columns(row, threshold=620, narrow=2, gap=24))
        self.welcome = Welcome(self.context.theme)
        below = Columns([self.written, self._peers_card()], threshold=WIDE, stretches=(5, 6))
        self._joined_parts: list[QWidget] = [figures, self._learning_card(), below]
        self.column.addWidget(self.welcome, 1)
        for part, stretch in zip(self._joined_parts, (0, 3, 2), strict=True):
            self.column.addWidget(part, stretch)

    def _learning_card(self) -> Card:
        card = Card(say("home", "Learning"))
        card.aside.addWidget(self.losses)
        card.body.addWidget(ChartKey(self.context.theme))
        card.body.addWidget(self.chart, 1)
        return card

    def _peers_card(self) -> Card:
        card = Card(say("home", "Other computers"))
        self.peers_table = Table(
            self.peers_model, say("home", "Other computers"), stretch_column=0, give_way=(4,), least=130
        )
        self.peers_table.setMinimumHeight(170)
        self.peers_empty = EmptyState(self.context.theme, "computers")
        self._peers_stack = QStackedWidget()
        self._peers_stack.addWidget(self.peers_empty)
        self._peers_stack.addWidget(self.peers_table)
        card.body.addWidget(self._peers_stack, 1)
        self.traffic = Text(role="label")
        card.body.addWidget(self.traffic)
        return card

    def _connect(self) -> None:
        mirror = self.context.mirror
        figures = Throttle(self.show_session, FIGURES_MILLISECONDS, self)
        curve = Throttle(self.show_curve, CURVE_MILLISECONDS, self)
        for signal in (mirror.session_changed, mirror.today_changed):
            signal.connect(figures)
        for signal in (mirror.curve_changed, mirror.session_changed):
            signal.connect(curve)

    @property
    def _session(self) -> SessionState | None:
        state = self.context.mirror.state
        return state.session if state is not None else None

    def show_session(self) -> None:
        """Figures, sample and other computers."""
        state, session = self.context.mirror.state, self._session
        self.welcome.setVisible(session is None)
        for part in self._joined_parts:
            part.setVisible(session is not None)
        today = state.today if state is not None else Today()
        accepted = say("home", "{tokens} of it in finished rounds").format(tokens=count(today.tokens_accepted))
        accepted = accepted if today.tokens_trained else ""
        self.today.show_value(say("home", "{tokens} tokens").format(tokens=count(today.tokens_trained)), accepted)
        self._show_rounds(session)
        self._show_pace(session)
        self._show_next(session)
        joined = say("home", "The first sample comes a few rounds after training begins.")
        none = say("home", "Join a project, and what its model writes appears here.")
        self.written.show_sample(session.sample if session else None, joined if session else none)
        self._show_peers(session, today)

    def _show_rounds(self, session: SessionState | None) -> None:
        if session is None:
            self.rounds.show_value(DASH)
            return
        self.rounds.show_value(whole(session.rounds_committed), round_text(session.last_round))

    def _show_pace(self, session: SessionState | None) -> None:
        mine = session.my_tokens_per_second if session else None
        everyone = session.swarm_tokens_per_second if session else None
        together = say("home", "all together about {rate}").format(rate=rate(everyone, say("home", "tokens/s")))
        self.pace.show_value(rate(mine, say("home", "tokens/s")), together if everyone is not None else "")

    def _show_next(self, session: SessionState | None) -> None:
        if session is None or session.target_batch_samples <= 0:
            self.next_round.show_value(DASH)
            self.gathered.show_share(None)
            return
        share = min(session.swarm_samples / session.target_batch_samples, 1.0)
        text = say("home", "about {done} of {target} samples").format(
            done=whole(session.swarm_samples), target=whole(session.target_batch_samples)
        )
        self.next_round.show_value(say("home", "{percent} gathered").format(percent=percent(100 * share)), text)
        self.gathered.show_share(share)

    def _show_peers(self, session: SessionState | None, today: Today) -> None:
        peers = ordered(session.peers) if session else ()
        self.peers_model.show_rows(peers)
        self._peers_stack.setCurrentWidget(self.peers_table if peers else self.peers_empty)
        looking = say("home", "Looking for other computers in this project.")
        none = say("home", "Join a project to meet other computers.")
        self.peers_empty.show_text(looking if session else none)
        traffic = say("home", "Today sent {sent}, received {received}")
        self.traffic.setText(traffic.format(sent=size(today.bytes_sent), received=size(today.bytes_received)))

    def show_curve(self) -> None:
        """The learning curve and the newest losses."""
        state, session = self.context.mirror.state, self._session
        if session is None:
            self.losses.setText("")
            self.chart.show_points((), say("home", "Join a project, and its learning curve appears here."))
            return
        assert state is not None
        newest = say("home", "training {train}, held-out {held_out}")
        known = session.train_loss is not None or session.held_out_loss is not None
        text = newest.format(train=loss(session.train_loss), held_out=loss(session.held_out_loss))
        self.losses.setText(text if known else "")
        self.chart.show_points(state.curve, say("home", "The curve begins with the first finished round."))


def round_text(last: RoundInfo | None) -> str:
    """The latest round in words."""
    if last is None:
        return say("home", "none finished yet")
    time = clock(last.at)
    if last.committed:
        return say("home", "the last at {time}, with %n computers", None, last.members).format(time=time)
    return say("home", "the one at {time} was discarded").format(time=time)
