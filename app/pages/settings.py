"""Settings: each takes effect at once, shows its present effect in words, and its error beside it."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QSlider, QWidget

from app.context import Context
from app.format import percent
from app.language import say
from app.pages.page import Page
from app.pages.setting_rows import FIELD_WIDTH, LineRow, SettingRow, SwitchRow, UploadRow
from app.widgets.card import Card, line
from app.widgets.text import Text
from engine.contract.settings import MAX_CPU_SHARE_PERCENT, MAX_DISPLAY_NAME_CHARS, MAX_HUB_URL_CHARS
from engine.contract.snapshot import EngineState, Machine

CPU_STEP_PERCENT = 5
SEND_MILLISECONDS = 200
"""While the slider is dragged, only where it rests so long is sent."""


def cores_effect(share_percent: int, machine: Machine) -> str:
    """What a share of the processor is on this computer."""
    cores = machine.cores_logical
    if cores is None:
        return say("settings", "about {percent} of the processor").format(percent=percent(share_percent))
    used = max(share_percent * cores / 100, 0.1)
    shown = f"{used:.1f}".removesuffix(".0") if used < 10 else f"{used:.0f}"
    return say("settings", "about {used} of %n cores, at the lowest priority", None, cores).format(used=shown)


class CpuRow(SettingRow):
    """The share of the processor, as a slider."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, "cpu_share_percent", say("settings", "Share of the processor"), parent)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(1, MAX_CPU_SHARE_PERCENT // CPU_STEP_PERCENT)
        self.slider.setPageStep(2)
        self.slider.setAccessibleName(say("settings", "Share of the processor"))
        self.value = Text(role="strong")
        self.value.setMinimumWidth(56)
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.slider.setMaximumWidth(FIELD_WIDTH)
        row = QHBoxLayout()
        row.addWidget(self.slider, 1)
        row.addWidget(self.value)
        row.addStretch(1)
        self.controls.addLayout(row)
        self._machine = Machine()
        self._rest = QTimer(self, interval=SEND_MILLISECONDS, singleShot=True)
        self._rest.timeout.connect(lambda: self.send(self.share))
        self.slider.valueChanged.connect(self._moved)
        self.slider.sliderReleased.connect(self._released)

    @property
    def share(self) -> int:
        """The share under the handle, percent."""
        return self.slider.value() * CPU_STEP_PERCENT

    def show_state(self, state: EngineState) -> None:
        self._machine = state.machine
        if not (self.pending or self._rest.isActive() or self.slider.isSliderDown()):
            self.slider.blockSignals(True)
            self.slider.setValue(round(state.settings.cpu_share_percent / CPU_STEP_PERCENT))
            self.slider.blockSignals(False)
            self._words(state.settings.cpu_share_percent)
        else:
            self._words(self.share)

    def _moved(self, _position: int) -> None:
        self._words(self.share)
        self._rest.start()

    def _released(self) -> None:
        if self._rest.isActive():
            self._rest.start(0)

    def _words(self, share: int) -> None:
        self.value.setText(percent(share))
        self.effect.show_text(cores_effect(share, self._machine))
        self.slider.setAccessibleDescription(f"{percent(share)}, {self.effect.text()}")


class SettingsPage(Page):
    """When, how much, network, name."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, say("pages", "Settings"), parent=parent)
        self.cpu = CpuRow(context)
        self.in_use = SwitchRow(
            context, "pause_while_in_use", say("settings", "Pause while I use the computer"), in_use_effect
        )
        self.battery = SwitchRow(context, "pause_on_battery", say("settings", "Pause on battery"), battery_effect)
        self.upload = UploadRow(context)
        name_note = say("settings", "Shown on the leaderboard. Leave it empty to appear without a name.")
        self.name = LineRow(context, "display_name", say("settings", "Your name"), MAX_DISPLAY_NAME_CHARS, name_note)
        self.name.field.setPlaceholderText(say("settings", "No name"))
        hub_note = say("settings", "The server that lists projects and introduces computers to each other.")
        self.hub = LineRow(context, "hub_url", say("settings", "Hub address"), MAX_HUB_URL_CHARS, hub_note)
        self.hub.field.setPlaceholderText("https://")
        self.rows: list[SettingRow] = [self.cpu, self.in_use, self.battery, self.upload, self.name, self.hub]
        self._group(say("settings", "How much, and when"), [self.cpu, self.in_use, self.battery])
        self._group(say("settings", "Network"), [self.upload, self.hub])
        self._group(say("settings", "On the leaderboard"), [self.name])
        self.column.addStretch(1)
        for signal in (context.mirror.settings_changed, context.mirror.machine_changed, context.mirror.hub_changed):
            signal.connect(self.refresh)
        context.link.status_changed.connect(self.refresh)
        self.refresh()

    def _group(self, title: str, rows: list[SettingRow]) -> None:
        card = Card(title)
        for index, row in enumerate(rows):
            if index:
                card.body.addSpacing(4)
                card.body.addWidget(line())
            card.body.addSpacing(4)
            card.body.addWidget(row)
        self.column.addWidget(card)

    def refresh(self, *_: object) -> None:
        """Show the settings that hold, and their effects."""
        state = self.context.mirror.state
        usable = state is not None and self.context.link.connected
        for row in self.rows:
            row.setEnabled(usable)
            if state is not None:
                row.show_state(state)


def in_use_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    idle = state.machine.idle_seconds
    if idle is None:
        return say("settings", "Has no effect here: this system does not tell when you are away.")
    if not state.settings.pause_while_in_use:
        return say("settings", "Trains while you work, within the share above.")
    return say("settings", "Stops when you touch the keyboard or mouse, goes on when you are away.")


def battery_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    if state.machine.on_battery is None:
        return say("settings", "No battery was found on this computer.")
    return say("settings", "On battery now.") if state.machine.on_battery else say("settings", "Plugged in now.")
