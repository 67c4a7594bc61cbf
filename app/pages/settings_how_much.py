"""Settings, "How much": presets, processor, graphics, memory, disk, other programs."""

from collections.abc import Callable
from typing import Final

from PySide6.QtWidgets import QWidget

from app.context import Context
from app.format import percent, size, whole
from app.language import say
from app.pages.setting_amounts import GIGABYTE, AmountRow, Unit
from app.pages.setting_rows import Rows, SettingRow, SwitchRow
from app.pages.setting_sliders import Scale, SliderRow
from app.widgets.presets import Choice, PresetPicker
from app.words import preset_label, setting_label
from engine.contract.presets import CUSTOM, PRESETS, apply_preset
from engine.contract.settings import BOUNDS
from engine.contract.snapshot import EngineState, Machine, Settings

CPU: Final = "cpu_share_percent"
MEMORY_GIGABYTES: Final = Unit("GB", GIGABYTE, 0.6, 1000)
DISK_GIGABYTES: Final = Unit("GB", GIGABYTE, 1, 10_000)


class PresetRow(SettingRow):
    """Three cards. Choosing one sets all that it says; a limit changed by hand leaves none chosen."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, "preset", setting_label("preset"), parent)
        choices = [
            Choice(name, preset_label(name), preset_text(apply_preset(Settings(), name)))
            for name in PRESETS
            if name != CUSTOM
        ]
        self.title.hide()  # the section's heading says it
        self.picker = PresetPicker(context.theme, self.label, choices)
        self.controls.addWidget(self.picker)
        self.picker.chosen.connect(self.send)

    @property
    def words(self) -> str:
        cards = self.picker.cards.values()
        return " ".join((super().words, *(f"{card.text()} {card.sentence}".casefold() for card in cards)))

    def show_state(self, state: EngineState) -> None:
        if not self.pending:
            self.picker.show_preset(state.settings.preset)
        own = say("settings", "You have set limits of your own below. A preset replaces them.")
        kept = say("settings", "Battery, disk, data and network limits are the same with all three.")
        self.effect.show_text(own if state.settings.preset == CUSTOM else kept)


class CpuRow(SliderRow):
    """The share of the processor while nobody uses the computer."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        title = say("settings", "Share of the processor while I am away")
        super().__init__(context, CPU, title, Scale(*BOUNDS[CPU]), away_effect, parent)


def how_much_rows(context: Context, cpu: CpuRow) -> list[Rows]:
    """All rows of the section; `cpu` is one of them."""

    def slider(name: str, scale: Scale, effect: Callable[[int, EngineState], str]) -> SliderRow:
        return SliderRow(context, name, setting_label(name), scale, effect)

    def amount(name: str, unit: Unit, effect: Callable[[EngineState], str]) -> AmountRow:
        return AmountRow(context, name, setting_label(name), unit, effect)

    name = "cpu_share_in_use_percent"
    load = Scale(0, 100, text=load_text)
    return [
        PresetRow(context),
        (cpu, slider(name, Scale(*BOUNDS[name]), in_use_share_effect)),
        SwitchRow(context, "gpu_while_in_use", setting_label("gpu_while_in_use"), gpu_effect),
        (
            slider("foreign_cpu_percent", load, foreign_cpu_effect),
            slider("foreign_gpu_percent", load, foreign_gpu_effect),
        ),
        (
            slider("memory_away_percent", Scale(*BOUNDS["memory_away_percent"]), memory_effect),
            slider("memory_in_use_percent", Scale(*BOUNDS["memory_in_use_percent"]), memory_effect),
        ),
        amount("memory_free_bytes", MEMORY_GIGABYTES, free_effect),
        (
            amount("disk_limit_bytes", DISK_GIGABYTES, disk_effect),
            amount("disk_free_bytes", DISK_GIGABYTES, disk_free_effect),
        ),
    ]


def preset_text(settings: Settings) -> str:
    """What a preset means, in a few words."""
    text = say(
        "settings",
        "Pauses while you use the computer. After {minutes} min, up to {away} of the processor, held near {heat} °C.",
    )
    return text.format(
        minutes=whole(settings.away_after_seconds // 60),
        away=percent(settings.cpu_share_percent),
        heat=whole(settings.heat_target_cpu_celsius),
    )


def cores_effect(share_percent: int, machine: Machine) -> str:
    """What a share of the processor is on this computer."""
    cores = machine.cores_logical
    if cores is None:
        return say("settings", "about {percent} of the processor").format(percent=percent(share_percent))
    used = max(share_percent * cores / 100, 0.1)
    shown = f"{used:.1f}".removesuffix(".0") if used < 10 else f"{used:.0f}"
    return say("settings", "about {used} of %n cores, at the lowest priority", None, cores).format(used=shown)


def away_effect(value: int, state: EngineState) -> str:
    """What the share is here."""
    return cores_effect(value, state.machine)


def in_use_share_effect(value: int, state: EngineState) -> str:
    """What the share is here, and when it counts."""
    if state.settings.pause_while_in_use:
        return say("settings", "Has no effect now: training pauses while you use the computer.")
    return cores_effect(value, state.machine)


def gpu_effect(state: EngineState) -> str:
    """What the switch does here and now."""
    if not any(gpu.usable for gpu in state.machine.gpus):
        return say("settings", "Has no effect here: no graphics card of this computer can train.")
    if state.settings.pause_while_in_use:
        return say("settings", "Has no effect now: training pauses while you use the computer.")
    if state.settings.gpu_while_in_use:
        return say("settings", "Trains on the graphics card while you work too.")
    return say("settings", "The graphics card is yours from the first touch of keyboard or mouse.")


def load_text(value: int) -> str:
    """A load from which on ours yields."""
    return percent(value) if value else say("settings", "Never")


def foreign_cpu_effect(value: int, state: EngineState) -> str:
    """What the threshold does here and now."""
    if not value:
        return say("settings", "Trains however busy other programs are, always at the lowest priority.")
    load = state.machine.foreign_cpu_percent
    if load is None:
        return say("settings", "Has no effect now: their use cannot be read.")
    now = say("settings", "They use about {now} now.").format(now=percent(load))
    waits = say("settings", "Training waits until they are done.")
    return f"{now} {waits}" if load > value else now


def foreign_gpu_effect(value: int, state: EngineState) -> str:
    """What the threshold does here and now."""
    if not any(gpu.usable for gpu in state.machine.gpus):
        return say("settings", "Has no effect here: no graphics card of this computer can train.")
    if not value:
        return say("settings", "Shares the graphics card with every other program.")
    loads = [gpu.foreign_load_percent for gpu in state.machine.gpus if gpu.foreign_load_percent is not None]
    if not loads:
        return say("settings", "Their use is read only while the graphics card trains.")
    return say("settings", "They use about {now} now.").format(now=percent(max(loads)))


def memory_effect(value: int, state: EngineState) -> str:
    """What the share is here."""
    total = state.machine.memory_total_bytes
    if total is None:
        return say("settings", "The memory of this computer cannot be read.")
    text = say("settings", "At most {limit} of {total}.")
    return text.format(limit=size(total * value // 100), total=size(total))


def free_effect(state: EngineState) -> str:
    """How much is free now."""
    total, used = state.machine.memory_total_bytes, state.machine.memory_used_bytes
    if total is None or used is None:
        return say("settings", "Free memory cannot be read here.")
    return say("settings", "{free} are free now. Below the limit, training stops.").format(free=size(total - used))


def disk_effect(state: EngineState) -> str:
    """How much is used now."""
    used = state.machine.disk_used_bytes
    if used is None:
        return say("settings", "For models and data. What is used now cannot be read.")
    return say("settings", "For models and data. {used} are used now.").format(used=size(used))


def disk_free_effect(state: EngineState) -> str:
    """How much is free now."""
    free = state.machine.disk_free_bytes
    if free is None:
        return say("settings", "Free disk space cannot be read here.")
    return say("settings", "{free} are free now. Below the limit, training stops.").format(free=size(free))
