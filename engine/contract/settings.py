"""Settings with their bounds: one declaration for the engine, the window and the command line."""

import contextlib
import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, get_origin

import msgspec

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.impossible import check_settings
from engine.contract.presets import CUSTOM, PRESET_FIELDS, PRESETS, apply_preset, preset_of
from engine.contract.snapshot import Machine, Settings
from engine.contract.week import is_week

__all__ = ["SettingValue", "apply_preset", "changed", "check_settings", "parsed", "restored", "shown"]

SettingValue: TypeAlias = str | int | float | bool | list[str | int] | None

MIN_CPU_SHARE_PERCENT: Final = 5
MAX_CPU_SHARE_PERCENT: Final = 100
MIN_UPLOAD_LIMIT_BYTES_PER_SECOND: Final = 8 * 1024
MAX_UPLOAD_LIMIT_BYTES_PER_SECOND: Final = 10 * 1024**3
MAX_DISPLAY_NAME_CHARS: Final = 40
MAX_HUB_URL_CHARS: Final = 300
MAX_EXCLUSIVE_APPS: Final = 50
MAX_EXCLUSIVE_APP_CHARS: Final = 120
MAX_PRICE_PER_KWH: Final = 100.0

GIGABYTE: Final = 1_000_000_000

BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "cpu_share_percent": (MIN_CPU_SHARE_PERCENT, MAX_CPU_SHARE_PERCENT),
    "cpu_share_in_use_percent": (MIN_CPU_SHARE_PERCENT, MAX_CPU_SHARE_PERCENT),
    "away_after_seconds": (60, 24 * 3600),
    "foreign_cpu_percent": (0, 100),
    "foreign_gpu_percent": (0, 100),
    "memory_in_use_percent": (5, 100),
    "memory_away_percent": (5, 100),
    "memory_free_bytes": (512 * 1024**2, 1024**4),
    "disk_limit_bytes": (GIGABYTE, 10_000 * GIGABYTE),
    "disk_free_bytes": (GIGABYTE, 10_000 * GIGABYTE),
    "data_cap_days": (1, 90),
    "heat_target_cpu_celsius": (50, 90),
    "heat_target_gpu_celsius": (50, 82),
    "start_delay_seconds": (0, 3600),
}
DATA_CAP_BOUNDS: Final = (GIGABYTE // 10, 100_000 * GIGABYTE)


LINE_LIMITS: Final = ("upload_limit_bytes_per_second", "download_limit_bytes_per_second")

MUST: Final[Mapping[str, str]] = {
    **{field.name: "must be true or false" for field in msgspec.structs.fields(Settings) if field.type is bool},
    **{name: f"must be a whole number from {low} to {high}" for name, (low, high) in BOUNDS.items()},
    "preset": f"must be one of {', '.join(PRESETS)}",
    **dict.fromkeys(
        LINE_LIMITS,
        f"must be a whole number of bytes from {MIN_UPLOAD_LIMIT_BYTES_PER_SECOND} "
        f"to {MAX_UPLOAD_LIMIT_BYTES_PER_SECOND}, or none",
    ),
    "data_cap_bytes": f"must be a whole number of bytes from {DATA_CAP_BOUNDS[0]} to {DATA_CAP_BOUNDS[1]}, or none",
    "electricity_price_per_kwh": f"must be a number from 0 to {MAX_PRICE_PER_KWH:.0f}, or none",
    "compute_schedule": "must be none, or seven masks of 24 hours",
    "network_schedule": "must be none, or seven masks of 24 hours",
    "exclusive_apps": (
        f"must be none, or at most {MAX_EXCLUSIVE_APPS} programs, "
        f"each of 1 to {MAX_EXCLUSIVE_APP_CHARS} printable characters"
    ),
    "display_name": f"must be text of at most {MAX_DISPLAY_NAME_CHARS} printable characters",
    "hub_url": "must begin with http:// or https://",
}
"""What each setting's value has to be."""

_WORDS: Final[dict[str, bool | None]] = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def changed(settings: Settings, changes: Mapping[str, SettingValue], machine: Machine | None = None) -> Settings:
    """`settings` with `changes` applied, a preset before the rest. Values that are not the preset's make it custom.

    Raises:
        ControlError: BAD_SETTING, naming the setting and what is wrong with its value, or why it can never work.
    """
    result = _applied(settings, changes)
    refused = check_settings(result, machine)
    if refused and set(refused) - set(check_settings(settings, machine)):
        raise ControlError(ErrorCode.BAD_SETTING, name=", ".join(changes)[:60], detail=refused[0].rstrip("."))
    return result


def restored(saved: Mapping[str, SettingValue]) -> Settings:
    """Settings from what was saved; a value that is no longer valid falls back to its default."""
    settings = Settings()
    for name in sorted(saved, key=lambda name: name != "preset"):
        try:
            settings = _applied(settings, {name: saved[name]})
        except ControlError:
            continue
    if check_settings(settings):
        plain = Settings()
        settings = msgspec.structs.replace(
            settings,
            compute_schedule=plain.compute_schedule,
            network_schedule=plain.network_schedule,
            exclusive_apps=plain.exclusive_apps,
        )
    return settings


def _applied(settings: Settings, changes: Mapping[str, SettingValue]) -> Settings:
    preset = changes.get("preset")
    if preset is not None:
        if preset not in PRESETS:
            raise _refusal("preset")
        settings = apply_preset(settings, str(preset))
    merged = msgspec.structs.asdict(settings)
    for name, value in changes.items():
        kind = _kind_of(name)
        try:
            merged[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise _refusal(name) from error
    result = Settings(**merged)
    _check(result)
    if result.preset != CUSTOM and changes.keys() & PRESET_FIELDS:
        result = msgspec.structs.replace(result, preset=preset_of(result))
    return result


def parsed(name: str, text: str) -> SettingValue:
    """A setting's value as it is written on a command line, read as the setting's own type; lists with commas.

    Raises:
        ControlError: BAD_SETTING, naming the setting and what its value must be.
    """
    kind = _kind_of(name)
    if kind is str:
        return text
    for candidate in _list_candidates(text) if get_origin(kind) is tuple else _candidates(text):
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert(candidate, kind)
            return candidate
    raise _refusal(name)


def _candidates(text: str) -> list[str | int | float | bool | None]:
    candidates: list[str | int | float | bool | None] = [_WORDS[text.lower()]] if text.lower() in _WORDS else []
    with contextlib.suppress(ValueError):
        candidates.append(int(text))
    with contextlib.suppress(ValueError, OverflowError):
        number = float(text)
        candidates.append(int(number) if number.is_integer() else number)  # 1e6
    return candidates


def _list_candidates(text: str) -> list[list[str | int]]:
    parts = [] if text.lower() in ("", "none") else [part.strip() for part in text.split(",")]
    candidates: list[list[str | int]] = [list(parts)]
    with contextlib.suppress(ValueError):
        candidates.append([int(part) for part in parts])
    return candidates


def shown(value: str | int | float | bool | tuple[str | int, ...] | None) -> str:
    """A setting's value as `parsed` reads it; an empty text as the word for that."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value) or "none"
    return "none" if value is None else str(value) or "empty"


def _kind_of(name: str) -> Any:
    for field in msgspec.structs.fields(Settings):
        if field.name == name:
            return field.type
    raise ControlError(ErrorCode.BAD_SETTING, name=name[:60], detail="there is no such setting")


def _check(settings: Settings) -> None:
    for name, (low, high) in BOUNDS.items():
        if not low <= getattr(settings, name) <= high:
            raise _refusal(name)
    for name in LINE_LIMITS:
        limit = getattr(settings, name)
        if limit is not None and not MIN_UPLOAD_LIMIT_BYTES_PER_SECOND <= limit <= MAX_UPLOAD_LIMIT_BYTES_PER_SECOND:
            raise _refusal(name)
    if len(settings.display_name) > MAX_DISPLAY_NAME_CHARS or not settings.display_name.isprintable():
        raise _refusal("display_name")
    url = settings.hub_url
    if len(url) > MAX_HUB_URL_CHARS:
        raise ControlError(
            ErrorCode.BAD_SETTING, name="hub_url", detail=f"must be at most {MAX_HUB_URL_CHARS} characters"
        )
    if url and not url.startswith(("http://", "https://")):
        raise _refusal("hub_url")
    _check_limits(settings)


def _check_limits(settings: Settings) -> None:
    cap, (low, high) = settings.data_cap_bytes, DATA_CAP_BOUNDS
    if cap is not None and not low <= cap <= high:
        raise _refusal("data_cap_bytes")
    price = settings.electricity_price_per_kwh
    if price is not None and not (math.isfinite(price) and 0 <= price <= MAX_PRICE_PER_KWH):
        raise _refusal("electricity_price_per_kwh")
    for name in ("compute_schedule", "network_schedule"):
        if not is_week(getattr(settings, name)):
            raise _refusal(name)
    apps = settings.exclusive_apps
    usable = all(0 < len(app.strip()) <= MAX_EXCLUSIVE_APP_CHARS and app.isprintable() for app in apps)
    if len(apps) > MAX_EXCLUSIVE_APPS or not usable:
        raise _refusal("exclusive_apps")


def _refusal(name: str) -> ControlError:
    return ControlError(ErrorCode.BAD_SETTING, name=name, detail=MUST[name])
