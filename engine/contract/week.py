"""PURE. The hours of a week: seven masks of 24 bits, Monday first, bit 0 the hour that begins at midnight."""

from typing import Final, TypeAlias

Week: TypeAlias = tuple[int, ...]

DAYS: Final = 7
HOURS: Final = 24
ALL_DAY: Final = (1 << HOURS) - 1
ALWAYS: Final[Week] = (ALL_DAY,) * DAYS


def hours(first: int, end: int) -> int:
    """The mask of the hours from `first` up to `end`, over midnight when `end` is not after `first`."""
    span = range(first, end if end > first else end + HOURS)
    mask = 0
    for hour in span:
        mask |= 1 << hour % HOURS
    return mask


NIGHTS: Final[Week] = (hours(22, 7),) * DAYS
OUTSIDE_OFFICE_HOURS: Final[Week] = (ALL_DAY & ~hours(8, 18),) * 5 + (ALL_DAY,) * 2
WEEKENDS: Final[Week] = (0,) * 5 + (ALL_DAY,) * 2

WEEK_PRESETS: Final[dict[str, Week]] = {
    "always": (),
    "nights": NIGHTS,
    "outside_office_hours": OUTSIDE_OFFICE_HOURS,
    "weekends": WEEKENDS,
}


def is_week(week: Week) -> bool:
    """Empty (always), or seven masks of 24 bits."""
    return week == () or (len(week) == DAYS and all(0 <= mask <= ALL_DAY for mask in week))


def allows(week: Week, weekday: int, hour: int) -> bool:
    """Whether the hour is in the week; `weekday` 0 is Monday. An empty week has every hour."""
    return not week or bool(week[weekday % DAYS] >> hour % HOURS & 1)


def common(one: Week, other: Week) -> Week:
    """The hours that both allow, as seven masks."""
    return tuple(mine & theirs for mine, theirs in zip(one or ALWAYS, other or ALWAYS, strict=True))


def hours_until_allowed(week: Week, weekday: int, hour: int) -> int | None:
    """How many hours after this one the next allowed hour begins; 0: this one is; None: there is none."""
    for ahead in range(DAYS * HOURS):
        days, of_day = divmod(hour + ahead, HOURS)
        if allows(week, weekday + days, of_day):
            return ahead
    return None
