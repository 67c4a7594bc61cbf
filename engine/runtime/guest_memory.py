"""What the governor keeps over a restart of the engine: the user's word, and the energy of today."""

import logging
from pathlib import Path
from typing import Annotated, Final

import msgspec

from engine.core.files import write_atomic
from engine.governor.model import Override, UserPause

log = logging.getLogger(__name__)

FILE_NAME: Final = "guest.json"
MAX_BYTES: Final = 4096
_MAX_KILOWATT_HOURS: Final = 1000.0

Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class GuestMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Moments are in seconds since the epoch."""

    paused: bool = False
    paused_until: Moment | None = None  # None, when paused: until resumed
    override_until: Moment | None = None
    energy_date: Annotated[str, msgspec.Meta(max_length=10)] = ""  # local, YYYY-MM-DD
    energy_kilowatt_hours: Annotated[float, msgspec.Meta(ge=0, le=_MAX_KILOWATT_HOURS)] = 0.0

    def pause(self, now: float) -> UserPause | None:
        """The user's pause, unless it has passed."""
        if not self.paused or (self.paused_until is not None and self.paused_until <= now):
            return None
        return UserPause(self.paused_until)

    def override(self, now: float) -> Override | None:
        """The user's leave to work in spite of limits, unless it has passed."""
        return None if self.override_until is None or self.override_until <= now else Override(self.override_until)


def load(data_dir: Path) -> GuestMemory:
    """Nothing, where nothing was kept or it cannot be read: no reason not to start."""
    path = data_dir / FILE_NAME
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise OSError("it is not a file")
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MAX_BYTES + 1), type=GuestMemory)
    except FileNotFoundError:
        return GuestMemory()
    except (OSError, msgspec.DecodeError) as error:
        log.info("%s is passed over: %s", path, error)
        return GuestMemory()


def save(data_dir: Path, memory: GuestMemory) -> bool:
    """Whole or not at all; whether it was. A disk that cannot be written is tried again by the caller."""
    try:
        write_atomic(data_dir / FILE_NAME, msgspec.json.encode(memory))
    except OSError as error:
        log.info("%s cannot be written: %s", data_dir / FILE_NAME, error)
        return False
    return True
