"""Settings, "Heat and noise": what is held, and where it stops whatever is chosen."""

from typing import Final

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.context import Context
from app.format import celsius, one_line, whole
from app.language import say
from app.pages.setting_rows import Rows, SettingRow
from app.pages.setting_sliders import Scale, SliderRow
from app.widgets.text import Text
from app.words import setting_label
from engine.contract.settings import BOUNDS
from engine.contract.snapshot import EngineState, Machine

CPU: Final = "heat_target_cpu_celsius"
GPU: Final = "heat_target_gpu_celsius"
CPU_STOP_CELSIUS: Final = 95.0
CPU_STOP_MARGIN_CELSIUS: Final = 5.0  # below what the processor itself calls critical
GPU_STOP_CELSIUS: Final = 87.0
LEAST_STOP_CELSIUS: Final = 75.0
GPU_STOP_MARGIN_CELSIUS: Final = 3.0  # below where the card slows itself down


def degrees(value: int) -> str:
    """A target."""
    return f"{whole(value)} °C"


class HardStopRow(SettingRow):
    """What cannot be changed, told in the place where one would look for it."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, "", say("settings", "Where it always stops"), parent)
        self.facts = Text(wrap=True)
        holder = QVBoxLayout()
        holder.addWidget(self.facts)
        self.controls.addLayout(holder)

    def show_state(self, state: EngineState) -> None:
        self.facts.show_text(hard_stop_text(state.machine))
        self.effect.show_text(say("settings", "These limits are fixed. Nothing sets them aside."))


def heat_rows(context: Context) -> list[Rows]:
    """All rows of the section."""
    return [
        (
            SliderRow(context, CPU, setting_label(CPU), Scale(*BOUNDS[CPU], 1, degrees, 5), cpu_effect),
            SliderRow(context, GPU, setting_label(GPU), Scale(*BOUNDS[GPU], 1, degrees, 5), gpu_effect),
        ),
        HardStopRow(context),
    ]


def hard_stop_text(machine: Machine) -> str:
    """Where training stops on this computer, whatever is chosen."""
    critical = machine.temperature_critical_celsius
    cpu = CPU_STOP_CELSIUS if critical is None else min(CPU_STOP_CELSIUS, critical - CPU_STOP_MARGIN_CELSIUS)
    slowdowns = [gpu.slowdown_celsius for gpu in machine.gpus if gpu.usable and gpu.slowdown_celsius is not None]
    gpu = min([GPU_STOP_CELSIUS, *(slowdown - GPU_STOP_MARGIN_CELSIUS for slowdown in slowdowns)])
    cpu, gpu = max(cpu, LEAST_STOP_CELSIUS), max(gpu, LEAST_STOP_CELSIUS)
    text = say("settings", "Processor at {cpu}, graphics card at {gpu}.")
    return text.format(cpu=celsius(cpu), gpu=celsius(gpu))


def cpu_effect(_value: int, state: EngineState) -> str:
    """What the target does here and now."""
    machine = state.machine
    if machine.temperature_celsius is None:
        if machine.thermal_state:
            return say("settings", "This system tells only how warm it is in words, and Potluck follows those.")
        return say("settings", "Cannot be read here, so at most half of the processor is used.")
    source = one_line(machine.temperature_source, 60)
    now = say("settings", "{temperature} now.").format(temperature=celsius(machine.temperature_celsius))
    lower = say("settings", "A lower target is quieter and slower.")
    told = say("settings", "Told by {source}.").format(source=source) if source else ""
    return " ".join(part for part in (now, told, lower) if part)


def gpu_effect(_value: int, state: EngineState) -> str:
    """What the target does here and now."""
    usable = [gpu for gpu in state.machine.gpus if gpu.usable]
    if not usable:
        return say("settings", "Has no effect here: no graphics card of this computer can train.")
    known = [gpu.temperature_celsius for gpu in usable if gpu.temperature_celsius is not None]
    if not known:
        return say("settings", "Read only while the graphics card trains, so that it can sleep.")
    return say("settings", "{temperature} when last read.").format(temperature=celsius(max(known)))
