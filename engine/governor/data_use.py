"""PURE. What of the data limit is used up, from the bytes of each day."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.contract.snapshot import Settings

WARN_SHARE: Final = 0.8
"""The user is told once when this much of the limit is used."""


@dataclass(frozen=True, slots=True)
class DataUse:
    """Bytes sent and received over the last days, today included."""

    used_bytes: int
    frees_on: datetime.date | None = None  # the local date on which it falls below the limit; None: it is below
    near: bool = False  # WARN_SHARE of the limit is used


def data_use(bytes_by_day: Mapping[str, int], today: datetime.date, settings: Settings) -> DataUse:
    """The use within the last `data_cap_days` local dates (keys YYYY-MM-DD), and when enough of it will have passed."""
    days = settings.data_cap_days
    counts = {offset: bytes_by_day.get((today - datetime.timedelta(offset)).isoformat(), 0) for offset in range(days)}
    used, cap = sum(counts.values()), settings.data_cap_bytes
    if cap is None:
        return DataUse(used)
    return DataUse(
        used,
        None if used < cap else today + datetime.timedelta(_days_until_below(counts, cap)),
        used >= WARN_SHARE * cap,
    )


def _days_until_below(counts: Mapping[int, int], cap: int) -> int:
    """`counts` are bytes by how many days ago; the oldest pass first."""
    left, days = sum(counts.values()), len(counts)
    for age in sorted(counts, reverse=True):
        left -= counts[age]
        if left < cap:
            return days - age
    return days
