"""PURE. Sets of limits under one name, for people who do not want to choose each."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from engine.contract.snapshot import Settings

PresetValue: TypeAlias = int | bool

CUSTOM: Final = "custom"
PRESETS: Final = ("quiet", "balanced", "full_when_away", CUSTOM)

PRESET_VALUES: Final[Mapping[str, Mapping[str, PresetValue]]] = {
    "quiet": {
        "cpu_share_percent": 25,
        "cpu_share_in_use_percent": 10,
        "pause_while_in_use": True,
        "gpu_while_in_use": False,
        "away_after_seconds": 600,
        "pause_full_screen": True,
        "foreign_cpu_percent": 40,
        "foreign_gpu_percent": 10,
        "memory_in_use_percent": 15,
        "memory_away_percent": 40,
        "heat_target_cpu_celsius": 70,
        "heat_target_gpu_celsius": 65,
    },
    "balanced": {
        "cpu_share_percent": 50,
        "cpu_share_in_use_percent": 25,
        "pause_while_in_use": True,
        "gpu_while_in_use": False,
        "away_after_seconds": 300,
        "pause_full_screen": True,
        "foreign_cpu_percent": 60,
        "foreign_gpu_percent": 15,
        "memory_in_use_percent": 25,
        "memory_away_percent": 60,
        "heat_target_cpu_celsius": 80,
        "heat_target_gpu_celsius": 75,
    },
    "full_when_away": {
        "cpu_share_percent": 100,
        "cpu_share_in_use_percent": 25,
        "pause_while_in_use": True,
        "gpu_while_in_use": False,
        "away_after_seconds": 300,
        "pause_full_screen": True,
        "foreign_cpu_percent": 60,
        "foreign_gpu_percent": 15,
        "memory_in_use_percent": 25,
        "memory_away_percent": 75,
        "heat_target_cpu_celsius": 80,
        "heat_target_gpu_celsius": 75,
    },
}
"""What choosing a preset sets. The hard rules (battery, disk, data, metered networks) belong to no preset."""

PRESET_FIELDS: Final = frozenset(PRESET_VALUES["balanced"])


def apply_preset(settings: Settings, preset: str) -> Settings:
    """`settings` with all that `preset` sets; "custom" keeps the values.

    Raises:
        ValueError: there is no such preset.
    """
    if preset not in PRESETS:
        raise ValueError(f"there is no preset {preset!r}")
    return msgspec.structs.replace(settings, preset=preset, **PRESET_VALUES.get(preset, {}))


def preset_of(settings: Settings) -> str:
    """The preset that the values still are, or "custom"."""
    wanted = PRESET_VALUES.get(settings.preset, {})
    kept = wanted and all(getattr(settings, name) == value for name, value in wanted.items())
    return settings.preset if kept else CUSTOM
