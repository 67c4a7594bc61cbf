"""The window: rail, state, page."""

from typing import Final

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from app.context import Context
from app.desktop import icons
from app.language import say
from app.pages.home import HomePage
from app.pages.leaderboard import LeaderboardPage
from app.pages.machine import MachinePage
from app.pages.page import Page, centred
from app.pages.projects import ProjectsPage
from app.pages.settings import SettingsPage
from app.shell.navigation import Rail
from app.widgets.loss_chart import PlotLoader
from app.widgets.override_banner import OverrideBanner
from app.widgets.problem_card import ProblemList
from app.widgets.state_header import StateHeader

LEAST_SIZE: Final = QSize(760, 560)
FIRST_SIZE: Final = QSize(1120, 760)


class MainWindow(QMainWindow):
    """The one window.

    Signals:
        close_wanted: the user closes the window; what that means is decided by `app.shell.closing`.
        quit_wanted: the user wants to end everything.
        closed: the window closed for good, without a question.
    """

    close_wanted = Signal()
    quit_wanted = Signal()
    closed = Signal()

    def __init__(self, context: Context, loader: PlotLoader) -> None:
        super().__init__()
        self.context = context
        self.may_close = False
        self.setWindowTitle("Potluck")
        self.setMinimumSize(LEAST_SIZE)
        self.rail = Rail(context.theme)
        self.header = StateHeader(context)
        self.banner = OverrideBanner(context)
        self.problems = ProblemList(context)
        self.home = HomePage(context, loader)
        self.projects = ProjectsPage(context)
        self.leaderboard = LeaderboardPage(context)
        self.machine = MachinePage(context)
        self.settings = SettingsPage(context)
        self.pages: dict[str, Page] = {
            "home": self.home,
            "projects": self.projects,
            "leaderboard": self.leaderboard,
            "machine": self.machine,
            "settings": self.settings,
        }
        self._build()
        self._connect()
        self._restore()
        self.show_page("home")

    def _build(self) -> None:
        self._stack = QStackedWidget()
        for page in self.pages.values():
            self._stack.addWidget(page)
        self.home.column.insertWidget(0, self.problems)
        right = QVBoxLayout()
        right.setContentsMargins(0, 24, 0, 0)
        right.setSpacing(16)
        right.addLayout(centred(self.header))
        right.addLayout(centred(self.banner))
        right.addWidget(self._stack, 1)
        self._canvas = canvas = QWidget()
        canvas.setObjectName("canvas")
        row = QHBoxLayout(canvas)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.rail)
        row.addLayout(right, 1)
        self.setCentralWidget(canvas)

    def _connect(self) -> None:
        self.rail.chosen.connect(self.show_page)
        self.projects.settings_wanted.connect(lambda: self.show_page("settings"))
        self.header.choose_wanted.connect(lambda: self.show_page("projects"))
        self.problems.count_changed.connect(self.rail.buttons["home"].show_badge)
        self.context.theme.changed.connect(self._dress)
        quit_keys = QShortcut(QKeySequence(QKeySequence.StandardKey.Quit), self)
        quit_keys.activated.connect(self.quit_wanted)
        close_keys = QShortcut(QKeySequence(QKeySequence.StandardKey.Close), self)
        close_keys.activated.connect(self.close)
        self._dress()

    def _dress(self) -> None:
        self.setWindowIcon(icons.icon(icons.MARK_WHOLE, self.context.theme.roles.action))

    @property
    def page_name(self) -> str:
        """The page that is shown."""
        return next(name for name, page in self.pages.items() if page is self._stack.currentWidget())

    def show_page(self, name: str) -> None:
        """Go to a page."""
        page = self.pages[name]
        page.fill()
        self._stack.setCurrentWidget(page)
        self.rail.show_chosen(name)
        self.header.show_page(name)
        self.setWindowTitle(say("window", "{page} – Potluck").format(page=page.title))  # noqa: RUF001

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.focusWidget() is None or not event.spontaneous():
            self._canvas.setFocus()  # no ring before the keyboard is used; Tab begins at the rail

    def raise_up(self) -> None:
        """Bring the window before the others, from the tray, from minimised, from behind."""
        self.setWindowState((self.windowState() & ~Qt.WindowState.WindowMinimized) | Qt.WindowState.WindowActive)
        self.show()
        self.raise_()
        self.activateWindow()

    def _restore(self) -> None:
        geometry = self.context.preferences.geometry
        if geometry is None or not self.restoreGeometry(geometry):
            self.resize(FIRST_SIZE)

    def remember_place(self) -> None:
        """Keep size and position for the next start."""
        self.context.preferences.geometry = self.saveGeometry()
        self.context.preferences.save()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.may_close:
            event.accept()
            self.closed.emit()
            return
        event.ignore()
        self.close_wanted.emit()
