"""Every command, declared once for the window, the command line and the tests.

Each can be repeated safely: asking twice for what already holds succeeds and changes nothing.
"""

from typing import Annotated, ClassVar, Final, Literal

import msgspec

from engine.contract.settings import SettingValue

MAX_PAUSE_SECONDS: Final = 7 * 24 * 3600
MAX_OVERRIDE_SECONDS: Final = 24 * 3600
MAX_PERIODS_SENT: Final = 2_000
MAX_READINGS_SENT: Final = 1_440


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Base of all commands; `method` is its name on the link."""

    method: ClassVar[str] = ""


class Join(Command, frozen=True, kw_only=True):
    """Take part in a project of the connected hub's catalogue. Replaces the joined one, if any."""

    method = "project.join"
    project: str  # its id (manifest hash, hex) or its name


class Leave(Command, frozen=True, kw_only=True):
    """Stop taking part, after the round in progress or at once."""

    method = "project.leave"
    when: Literal["after_round", "now"] = "after_round"


class Pause(Command, frozen=True, kw_only=True):
    """Stop computing, for a time or until resumed."""

    method = "training.pause"
    seconds: float | None = None  # None: until resumed; bounded by MAX_PAUSE_SECONDS


class Resume(Command, frozen=True, kw_only=True):
    """Go on computing as far as the limits allow."""

    method = "training.resume"


class Override(Command, frozen=True, kw_only=True):
    """Compute for a time in spite of what the limits say; ends a pause. The hard rules do not yield."""

    method = "training.override"
    seconds: Annotated[float, msgspec.Meta(gt=0, le=MAX_OVERRIDE_SECONDS)]


class CancelOverride(Command, frozen=True, kw_only=True):
    """The limits hold again."""

    method = "training.override_cancel"


class ChangeSettings(Command, frozen=True, kw_only=True):
    """Change the named settings; the others stay. Takes effect at once."""

    method = "settings.change"
    changes: dict[str, SettingValue]


class PreviewSettings(Command, frozen=True, kw_only=True):
    """What these changes would have meant yesterday, or why they are refused; nothing is changed."""

    method = "settings.preview"
    changes: dict[str, SettingValue]


class RefreshHub(Command, frozen=True, kw_only=True):
    """Try the hub now rather than at the next planned moment."""

    method = "hub.refresh"


class OpenLink(Command, frozen=True, kw_only=True):
    """Act on a `potluck://` link: validates it and joins the project it names."""

    method = "link.open"
    link: str


class DismissProblem(Command, frozen=True, kw_only=True):
    """Take a problem card away."""

    method = "problem.dismiss"
    problem_id: str


class RestartWorker(Command, frozen=True, kw_only=True):
    """Start the training process again after it was given up."""

    method = "worker.restart"


class GetKit(Command, frozen=True, kw_only=True):
    """Fetch the training kit, or go on fetching it."""

    method = "kit.get"


class PauseKit(Command, frozen=True, kw_only=True):
    """Stop fetching the training kit; what is here stays."""

    method = "kit.pause"


class GetState(Command, frozen=True, kw_only=True):
    """The state tree, as one reply (for the command line)."""

    method = "state.get"


class GetRounds(Command, frozen=True, kw_only=True):
    """The joined project's latest rounds that ended here, newest first, as stored."""

    method = "rounds.get"
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class Why(Command, frozen=True, kw_only=True):
    """The sentences that say what the engine does and why, now and lately."""

    method = "why.get"


class GetPeriods(Command, frozen=True, kw_only=True):
    """From when to when the engine ran at which level and why, in order; at most the latest MAX_PERIODS_SENT."""

    method = "periods.get"
    from_at: float
    to_at: float


class GetReadings(Command, frozen=True, kw_only=True):
    """The stored readings of this computer, in order, evenly thinned to MAX_READINGS_SENT."""

    method = "readings.get"
    from_at: float
    to_at: float


class MeasureMachine(Command, frozen=True, kw_only=True):
    """Measure how fast this computer trains, in about a minute; the state tree shows how far it is."""

    method = "machine.measure"


class CancelMeasure(Command, frozen=True, kw_only=True):
    """End the measurement."""

    method = "machine.measure_cancel"


class Ping(Command, frozen=True, kw_only=True):
    """Answers at once."""

    method = "ping"


class StopEngine(Command, frozen=True, kw_only=True):
    """Leave the round politely, save, and end the engine process."""

    method = "engine.stop"


COMMANDS: Final[dict[str, type[Command]]] = {
    command.method: command
    for command in (
        Join,
        Leave,
        Pause,
        Resume,
        Override,
        CancelOverride,
        ChangeSettings,
        PreviewSettings,
        RefreshHub,
        OpenLink,
        DismissProblem,
        RestartWorker,
        GetKit,
        PauseKit,
        GetState,
        GetRounds,
        Why,
        GetPeriods,
        GetReadings,
        MeasureMachine,
        CancelMeasure,
        Ping,
        StopEngine,
    )
}
