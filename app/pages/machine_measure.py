"""Machine: how fast this computer trains, measured when the user asks."""

from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.context import Context
from app.format import cannot_read, clock, count, megabits, one_line, rate, size
from app.language import say
from app.link import operations
from app.link.operation import Failure, Operation
from app.widgets.buttons import push_button
from app.widgets.card import Card
from app.widgets.facts import Facts
from app.widgets.meter import Meter
from app.widgets.text import Text
from app.words import failure_sentence
from engine.contract.snapshot import DeviceSpeed, Measurement

RUNNING: Final = "running"


class MeasureCard(Card):
    """A button, the progress with Cancel, the result."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(say("measure", "Speed of this computer"), parent=parent)
        self._context = context
        self._waiting = False
        self.text = Text(role="muted", wrap=True)
        self.meter = Meter(context.theme, say("measure", "Measured so far"))
        self.result = Facts()
        self.error = Text(role="error", wrap=True)
        self.error.hide()
        self.start_button = push_button(say("measure", "Measure"), name=say("measure", "Measure this computer"))
        self.start_button.clicked.connect(lambda: self._run(operations.measure(context.link)))
        self.cancel_button = push_button(say("measure", "Cancel"), name=say("measure", "Cancel the measurement"))
        self.cancel_button.clicked.connect(lambda: self._run(operations.cancel_measure(context.link)))
        buttons = QHBoxLayout()
        buttons.addWidget(self.start_button)
        buttons.addWidget(self.cancel_button)
        buttons.addStretch(1)
        for part in (self.text, self.meter, self.result, self.error):
            self.body.addWidget(part)
        self.body.addLayout(buttons)
        self.body.addStretch(1)
        for signal in (context.mirror.measurement_changed, context.link.status_changed):
            signal.connect(self.refresh)
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Show what holds now."""
        state = self._context.mirror.state
        measurement = state.measurement if state is not None else Measurement()
        running = measurement.state == RUNNING
        had_focus = self.start_button.hasFocus() or self.cancel_button.hasFocus()
        usable = self._context.link.connected and not self._waiting
        for button, shown in ((self.start_button, not running), (self.cancel_button, running)):
            button.setVisible(shown)
            button.setEnabled(usable)
            if shown and had_focus and usable:
                button.setFocus()
        self.start_button.setText(say("measure", "Measure again") if measurement.devices else say("measure", "Measure"))
        self.meter.setVisible(running)
        self.meter.show_share(measurement.fraction)
        self.text.show_text(measure_text(measurement))
        self.result.show_facts([] if running else result_facts(measurement))

    def _run(self, operation: Operation) -> None:
        self._waiting = True
        self.error.show_text("")
        operation.succeeded.connect(self._succeeded)
        operation.failed.connect(self._failed)
        self.refresh()

    def _succeeded(self, _result: object) -> None:
        self._waiting = False
        self.refresh()

    def _failed(self, failure: Failure) -> None:
        self._waiting = False
        self.error.show_text(failure_sentence(failure))
        self.refresh()


def measure_text(measurement: Measurement) -> str:
    """What is going on, or what the button does."""
    if measurement.state == RUNNING:
        return say("measure", "Measuring. This takes about a minute; training waits meanwhile.")
    if measurement.state == "cancelled":
        return say("measure", "The measurement was cancelled.")
    if measurement.state == "failed":
        why = one_line(measurement.detail, 160).rstrip(".")
        plain = say("measure", "The measurement failed. Try again.")
        return say("measure", "The measurement failed: {why}. Try again.").format(why=why) if why else plain
    if measurement.at is not None:
        return say("measure", "Measured at {time} with a small reference model.").format(time=clock(measurement.at))
    return say(
        "measure", "Trains a small reference model for about a minute, on each device. Training waits meanwhile."
    )


def result_facts(measurement: Measurement) -> list[tuple[str, str]]:
    """What was found; a number that could not be had says why."""
    facts = [(one_line(device.name or device.device, 60), device_text(device)) for device in measurement.devices]
    if measurement.memory_free_bytes is not None:
        facts.append((say("measure", "Free memory"), size(measurement.memory_free_bytes)))
    for name, value in (
        (say("measure", "Sending"), measurement.upload_bytes_per_second),
        (say("measure", "Receiving"), measurement.download_bytes_per_second),
    ):
        if value is not None:
            facts.append((name, say("measure", "about {rate}").format(rate=megabits(round(value)))))
    return facts


def device_text(device: DeviceSpeed) -> str:
    """One device's speed."""
    if device.tokens_per_second is None:
        return one_line(device.detail, 120) or cannot_read()
    text = say("measure", "about {rate}, {hourly} an hour").format(
        rate=rate(device.tokens_per_second, say("home", "tokens/s")),
        hourly=count(round(device.tokens_per_second * 3600)),
    )
    if device.memory_bytes is None:
        return text
    return say("measure", "{speed}, with {memory} of memory").format(speed=text, memory=size(device.memory_bytes))
