"""How much power is drawn, and the energy of a day.

Linux: the processor's counters (RAPL, Documentation/power/powercap/powercap.rst). Most kernels let only administrators
read them; then it is unknown. Elsewhere: unknown.
"""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.hardware.host import Host
from engine.hardware.sysfs import entries_of, number_of, text_of

JOULES_PER_KILOWATT_HOUR: Final = 3.6e6
MICROJOULES: Final = 1e6
LONGEST_GAP_SECONDS: Final = 60.0
"""After a longer one (the computer slept) a counter may have wrapped more than once: counting begins anew."""

MAX_WATTS: Final = 5000.0


@dataclass(frozen=True, slots=True)
class PowerReading:
    """Since the reading before. All None at the first, and where nothing can be read."""

    watts: float | None
    joules: float | None
    source: str


class RaplReader:
    """Remembers the counters from one reading to the next."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._before: dict[str, float] = {}
        self._before_at: float | None = None

    def read(self, monotonic: float) -> PowerReading:
        """All processors and, where it is counted apart, their memory. `monotonic` in seconds."""
        if not self._host.is_linux:
            return PowerReading(None, None, "this system shows it only to administrators")
        counters, ranges, refused = _counters(self._host.root)
        if not counters:
            why = "Linux shows it only to administrators" if refused else "this processor does not tell"
            return PowerReading(None, None, why)
        before, before_at = self._before, self._before_at
        self._before, self._before_at = counters, monotonic
        if before_at is None or before.keys() != counters.keys():
            return PowerReading(None, None, "processor")
        seconds = monotonic - before_at
        if not 0 < seconds <= LONGEST_GAP_SECONDS:
            return PowerReading(None, None, "processor")
        joules = sum(_advance(before[name], counters[name], ranges[name]) for name in counters) / MICROJOULES
        if joules / seconds > MAX_WATTS:
            return PowerReading(None, None, "processor")
        return PowerReading(joules / seconds, joules, "processor")


def _counters(root: Path) -> tuple[dict[str, float], dict[str, float], bool]:
    """Microjoules by domain, where each counter wraps, and whether one may not be read."""
    counters, ranges, refused = {}, {}, False
    for domain in entries_of(root / "sys/class/powercap"):
        name = text_of(domain / "name")
        if not (name.startswith("package") or name == "dram"):
            continue
        energy = number_of(domain / "energy_uj", 0, 2**63)
        if energy is None:
            refused = True
            continue
        counters[domain.name] = energy
        ranges[domain.name] = number_of(domain / "max_energy_range_uj", 1, 2**63) or 0.0
    return counters, ranges, refused


def _advance(before: float, now: float, wraps_at: float) -> float:
    return now - before if now >= before else max(0.0, now + wraps_at - before)


class EnergyToday:
    """Adds up what is measured between two midnights, local time."""

    def __init__(self, date: str = "", kilowatt_hours: float = 0.0) -> None:
        self._date = date
        self._joules = kilowatt_hours * JOULES_PER_KILOWATT_HOUR
        self._measured = kilowatt_hours > 0

    def add(self, joules: float, now: float) -> None:
        """Used up to `now` (seconds since the epoch)."""
        self._turn(now)
        self._joules += joules
        self._measured = True

    def kilowatt_hours(self, now: float) -> float | None:
        """Of the day that `now` is in; None when nothing was measured in it."""
        self._turn(now)
        return self._joules / JOULES_PER_KILOWATT_HOUR if self._measured else None

    def _turn(self, now: float) -> None:
        date = datetime.datetime.fromtimestamp(now).astimezone().date().isoformat()
        if date != self._date:
            self._date, self._joules, self._measured = date, 0.0, False
