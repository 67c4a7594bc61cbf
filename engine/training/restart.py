"""When to start a dead worker again. Pure: the lead passes the times in."""

from dataclasses import dataclass


@dataclass(slots=True)
class RestartPolicy:
    """Waits longer after each quick death; after `give_up_after` of them in a row it gives up."""

    quick_seconds: float = 60.0
    give_up_after: int = 3
    first_delay_seconds: float = 1.0
    longest_delay_seconds: float = 60.0
    quick_deaths: int = 0

    def on_death(self, lived_seconds: float) -> float | None:
        """Seconds to wait before the next start, or None: give up and say why."""
        self.quick_deaths = self.quick_deaths + 1 if lived_seconds < self.quick_seconds else 1
        if self.quick_deaths >= self.give_up_after:
            return None
        return float(min(self.longest_delay_seconds, self.first_delay_seconds * 2.0 ** (self.quick_deaths - 1)))

    def reset(self) -> None:
        """The user asked for another try."""
        self.quick_deaths = 0
