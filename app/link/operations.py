"""What a user can ask for: one function for each action. Each returns at once with the operation under way."""

from typing import Final, Protocol

from app.link.operation import Operation
from engine.contract.commands import (
    CancelMeasure,
    CancelOverride,
    ChangeSettings,
    Command,
    DismissProblem,
    GetKit,
    GetPeriods,
    GetReadings,
    Join,
    Leave,
    MeasureMachine,
    OpenLink,
    Override,
    Pause,
    PauseKit,
    PreviewSettings,
    RefreshHub,
    RestartWorker,
    Resume,
    StopEngine,
)
from engine.contract.settings import SettingValue

JOIN_DEADLINE_MILLISECONDS: Final = 60_000
"""Joining fetches the manifest from the hub and checks it."""
STOP_DEADLINE_MILLISECONDS: Final = 20_000


class CommandPort(Protocol):
    """Where commands go."""

    def request(self, command: Command, deadline_milliseconds: int = ...) -> Operation:
        """Send a command."""


def join(link: CommandPort, project_id: str) -> Operation:
    """Take part in a project."""
    return link.request(Join(project=project_id), JOIN_DEADLINE_MILLISECONDS)


def leave(link: CommandPort, *, now: bool) -> Operation:
    """Stop taking part, at once or after the round in progress."""
    return link.request(Leave(when="now" if now else "after_round"))


def pause(link: CommandPort, seconds: float | None) -> Operation:
    """Stop computing for `seconds`, or until resumed."""
    return link.request(Pause(seconds=seconds))


def resume(link: CommandPort) -> Operation:
    """Go on."""
    return link.request(Resume())


def override(link: CommandPort, seconds: float) -> Operation:
    """Compute for a time in spite of the limits that yield."""
    return link.request(Override(seconds=seconds))


def cancel_override(link: CommandPort) -> Operation:
    """Let the limits hold again."""
    return link.request(CancelOverride())


def preview_settings(link: CommandPort) -> Operation:
    """What the settings that hold would have meant yesterday: a `SettingsPreview`, as plain values."""
    return link.request(PreviewSettings(changes={}))


def periods(link: CommandPort, from_at: float, to_at: float) -> Operation:
    """The stored levels and their reasons: a list of `PeriodInfo`, as plain values."""
    return link.request(GetPeriods(from_at=from_at, to_at=to_at))


def readings(link: CommandPort, from_at: float, to_at: float) -> Operation:
    """The stored readings: a list of `ReadingInfo`, as plain values."""
    return link.request(GetReadings(from_at=from_at, to_at=to_at))


def measure(link: CommandPort) -> Operation:
    """Begin to measure how fast this computer trains."""
    return link.request(MeasureMachine())


def cancel_measure(link: CommandPort) -> Operation:
    """End the measurement."""
    return link.request(CancelMeasure())


def change_setting(link: CommandPort, name: str, value: SettingValue) -> Operation:
    """Change one setting."""
    return link.request(ChangeSettings(changes={name: value}))


def refresh_hub(link: CommandPort) -> Operation:
    """Try the hub now."""
    return link.request(RefreshHub())


def open_link(link: CommandPort, address: str) -> Operation:
    """Join the project that a `potluck://` address names; the user has agreed before."""
    return link.request(OpenLink(link=address), JOIN_DEADLINE_MILLISECONDS)


def dismiss_problem(link: CommandPort, problem_id: str) -> Operation:
    """Take a problem card away."""
    return link.request(DismissProblem(problem_id=problem_id))


def get_kit(link: CommandPort) -> Operation:
    """Fetch the training kit, or go on."""
    return link.request(GetKit())


def pause_kit(link: CommandPort) -> Operation:
    """Stop fetching the training kit for now."""
    return link.request(PauseKit())


def restart_worker(link: CommandPort) -> Operation:
    """Start training again after it kept failing."""
    return link.request(RestartWorker())


def stop_engine(link: CommandPort) -> Operation:
    """End the engine politely."""
    return link.request(StopEngine(), STOP_DEADLINE_MILLISECONDS)
