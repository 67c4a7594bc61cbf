"""Settings with their bounds: one declaration for the engine, the window and the command line."""

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.impossible import check_settings
from engine.contract.presets import CUSTOM, PRESET_FIELDS, PRESETS, apply_preset, preset_of
from engine.contract.snapshot import Settings
from engine.contract.week import is_week

__all__ = ["SettingValue", "apply_preset", "changed", "check_settings", "restored"]

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


def changed(settings: Settings, changes: Mapping[str, SettingValue]) -> Settings:
    """`settings` with `changes` applied, a preset before the rest. Values that are not the preset's make it custom.

    Raises:
        ControlError: BAD_SETTING, naming the setting and what is wrong with its value, or why it can never work.
    """
    result = _applied(settings, changes)
    refused = check_settings(result)
    if refused and set(refused) - set(check_settings(settings)):
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
            _refuse("preset", f"must be one of {', '.join(PRESETS)}")
        settings = apply_preset(settings, str(preset))
    merged = msgspec.structs.asdict(settings)
    for name, value in changes.items():
        if name not in merged:
            raise ControlError(ErrorCode.BAD_SETTING, name=name[:60], detail="there is no such setting")
        merged[name] = value
    try:
        result = msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise ControlError(ErrorCode.BAD_SETTING, name=", ".join(changes)[:60], detail=str(error)[:200]) from error
    _check(result)
    if result.preset != CUSTOM and changes.keys() & PRESET_FIELDS:
        result = msgspec.structs.replace(result, preset=preset_of(result))
    return result


def _check(settings: Settings) -> None:
    for name, (low, high) in BOUNDS.items():
        if not low <= getattr(settings, name) <= high:
            _refuse(name, f"must be {low} to {high}")
    limit = settings.upload_limit_bytes_per_second
    if limit is not None and not MIN_UPLOAD_LIMIT_BYTES_PER_SECOND <= limit <= MAX_UPLOAD_LIMIT_BYTES_PER_SECOND:
        _refuse("upload_limit_bytes_per_second", f"must be at least {MIN_UPLOAD_LIMIT_BYTES_PER_SECOND}, or none")
    if len(settings.display_name) > MAX_DISPLAY_NAME_CHARS or not settings.display_name.isprintable():
        _refuse("display_name", f"must be at most {MAX_DISPLAY_NAME_CHARS} printable characters")
    url = settings.hub_url
    if url and (len(url) > MAX_HUB_URL_CHARS or not url.startswith(("http://", "https://"))):
        _refuse("hub_url", "must begin with http:// or https://")
    _check_limits(settings)


def _check_limits(settings: Settings) -> None:
    cap, (low, high) = settings.data_cap_bytes, DATA_CAP_BOUNDS
    if cap is not None and not low <= cap <= high:
        _refuse("data_cap_bytes", f"must be {low} to {high}, or none")
    price = settings.electricity_price_per_kwh
    if price is not None and not (math.isfinite(price) and 0 <= price <= MAX_PRICE_PER_KWH):
        _refuse("electricity_price_per_kwh", f"must be 0 to {MAX_PRICE_PER_KWH:.0f}, or none")
    for name in ("compute_schedule", "network_schedule"):
        if not is_week(getattr(settings, name)):
            _refuse(name, "must be empty, or seven masks of 24 hours")
    apps = settings.exclusive_apps
    if len(apps) > MAX_EXCLUSIVE_APPS:
        _refuse("exclusive_apps", f"must be at most {MAX_EXCLUSIVE_APPS} programs")
    if any(not 0 < len(app.strip()) <= MAX_EXCLUSIVE_APP_CHARS or not app.isprintable() for app in apps):
        _refuse("exclusive_apps", f"each must be 1 to {MAX_EXCLUSIVE_APP_CHARS} printable characters")


def _refuse(name: str, detail: str) -> None:
    raise ControlError(ErrorCode.BAD_SETTING, name=name, detail=detail)
