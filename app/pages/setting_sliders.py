"""Settings that are a number on a scale."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QSlider, QWidget

from app.context import Context
from app.format import percent
from app.pages.setting_rows import FIELD_WIDTH, SettingRow
from app.widgets.text import Text
from engine.contract.snapshot import EngineState

SEND_MILLISECONDS: Final = 200
"""While the slider is dragged, only where it rests so long is sent."""
VALUE_WIDTH: Final = 64


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low` to `high` in steps, both multiples of the step, and how a value is written."""

    low: int
    high: int
    step: int = 5
    text: Callable[[int], str] = percent
    page: int = 2  # steps of Page Up and Page Down


class SliderRow(SettingRow):
    """A slider with its value beside it. `effect` gets the value under the handle and the engine's state."""

    def __init__(
        self,
        context: Context,
        name: str,
        title: str,
        scale: Scale,
        effect: Callable[[int, EngineState], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(context, name, title, parent)
        self._scale = scale
        self._effect = effect
        self._state: EngineState | None = None
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(scale.low // scale.step, scale.high // scale.step)
        self.slider.setPageStep(scale.page)
        self.slider.setAccessibleName(title)
        self.slider.setMaximumWidth(FIELD_WIDTH)
        self.value = Text(role="strong")
        self.value.setMinimumWidth(VALUE_WIDTH)
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row = QHBoxLayout()
        row.addWidget(self.slider, 1000)
        row.addWidget(self.value)
        row.addStretch(1)
        self.controls.addLayout(row)
        self._rest = QTimer(self, interval=SEND_MILLISECONDS, singleShot=True)
        self._rest.timeout.connect(lambda: self.send(self.share))
        self.slider.valueChanged.connect(self._moved)
        self.slider.sliderReleased.connect(self._released)

    @property
    def share(self) -> int:
        """The value under the handle."""
        return self.slider.value() * self._scale.step

    def show_state(self, state: EngineState) -> None:
        self._state = state
        if self.pending or self._rest.isActive() or self.slider.isSliderDown():
            self._words(self.share)
            return
        value = int(getattr(state.settings, self.name))
        with QSignalBlocker(self.slider):
            self.slider.setValue(round(value / self._scale.step))
        self._words(value)

    def _moved(self, _position: int) -> None:
        self._words(self.share)
        self._rest.start()

    def _released(self) -> None:
        if self._rest.isActive():
            self._rest.start(0)

    def _words(self, value: int) -> None:
        self.value.setText(self._scale.text(value))
        if self._state is not None:
            self.effect.show_text(self._effect(value, self._state))
        self.slider.setAccessibleDescription(f"{self._scale.text(value)}, {self.effect.text()}")
