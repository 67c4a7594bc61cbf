"""The fastest fan."""

from typing import Final

from engine.hardware.answer import Answer
from engine.hardware.host import Host
from engine.hardware.sysfs import entries_of, number_of, text_of

_GRAPHICS: Final = frozenset({"amdgpu", "radeon", "nouveau", "i915", "xe"})
"""Not read: to ask a sleeping graphics card wakes it on many kernels."""

MAX_RPM: Final = 30_000


def read_fan(host: Host) -> Answer[int]:
    """In turns a minute; 0 when all stand still. Linux only (hwmon)."""
    if not host.is_linux:
        return Answer(None, "this system shows it only to administrators")
    speeds = [
        speed
        for chip in entries_of(host.root / "sys/class/hwmon")
        if text_of(chip / "name") not in _GRAPHICS
        for file in sorted(chip.glob("fan*_input"))
        if (speed := number_of(file, 0, MAX_RPM)) is not None
    ]
    return Answer(int(max(speeds)), "hwmon") if speeds else Answer(None, "no fan tells its speed")
