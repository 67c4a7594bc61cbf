"""Windows: GetSystemPowerStatus (learn.microsoft.com, winbase.h)."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

NO_BATTERY: Final = 128
UNKNOWN: Final = 255


class SystemPowerStatus(ctypes.Structure):
    """SYSTEM_POWER_STATUS."""

    _fields_ = (
        ("ACLineStatus", ctypes.c_uint8),
        ("BatteryFlag", ctypes.c_uint8),
        ("BatteryLifePercent", ctypes.c_uint8),
        ("SystemStatusFlag", ctypes.c_uint8),
        ("BatteryLifeTime", ctypes.c_uint32),
        ("BatteryFullLifeTime", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class WindowsPower:
    """None: unknown."""

    battery_fitted: bool | None
    on_mains: bool | None
    percent: float | None
    saver: bool


def read_windows_power(load: Callable[[str], Any]) -> WindowsPower | None:
    """None when Windows refuses."""
    status = SystemPowerStatus()
    if not load("kernel32").GetSystemPowerStatus(ctypes.byref(status)):
        return None
    flag = status.BatteryFlag
    return WindowsPower(
        battery_fitted=None if flag == UNKNOWN else not flag & NO_BATTERY,
        on_mains={0: False, 1: True}.get(status.ACLineStatus),
        percent=float(status.BatteryLifePercent) if status.BatteryLifePercent <= 100 else None,
        saver=status.SystemStatusFlag == 1,
    )
