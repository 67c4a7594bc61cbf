"""The one sentence's worth of state: what the engine does now, and why. PURE."""

from dataclasses import dataclass
from typing import Final

from engine.contract.reasons import Reason, ReasonCode, RunState, Scalar
from engine.contract.snapshot import HubStatus, SessionState, Status
from engine.governor.policy import Decision

UNMET_SECONDS: Final = 20.0
"""So long a connection may take, and so old what the hub says of who is there may be."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All that the state follows from."""

    joined: bool
    leaving: bool
    minimum_peers: int
    session: SessionState | None
    decision: Decision
    hub: HubStatus
    leaving_now: bool = False
    joining: str = ""  # the project asked for at the start, when it is not joined yet
    others_unmet: int = 0  # computers that the hub sees in the project, when none was connected for a while
    unusable: Reason | None = None  # why no session could begin


def status_of(what: Circumstances, previous: Status, now: float) -> Status:
    """The status at `now`; `since` stays as it was while state and causes stay."""
    state, reasons, resumes_at = _judge(what)
    codes = tuple(reason.code for reason in reasons)
    same = state == previous.state and codes == tuple(reason.code for reason in previous.reasons)
    return Status(state=state, reasons=reasons, since=previous.since if same else now, resumes_at=resumes_at)


def _judge(what: Circumstances) -> tuple[RunState, tuple[Reason, ...], float | None]:
    if not what.joined and what.joining:
        return RunState.WAITING, (_waiting_to_join(what),), None
    if not what.joined:
        return RunState.IDLE, (Reason(code=ReasonCode.NO_PROJECT),), None
    if what.leaving:
        code = ReasonCode.LEAVING_NOW if what.leaving_now else ReasonCode.LEAVING_AFTER_ROUND
        return RunState.LEAVING, (Reason(code=code),), None
    if not what.decision.computes:
        return RunState.PAUSED, what.decision.reasons, what.decision.resumes_at
    session = what.session
    if session is None and what.unusable is not None:
        return RunState.WAITING, (what.unusable,), None
    if session is None:
        return RunState.CONNECTING, (Reason(code=ReasonCode.LOOKING_FOR_PEERS),), None
    state, reason = _judge_session(session, what)
    return state, what.decision.reasons if reason is None else (reason,), None


def _waiting_to_join(what: Circumstances) -> Reason:
    params: dict[str, Scalar] = {"project": what.joining}
    if not what.hub.connected:
        params["url"] = what.hub.url
    return Reason(code=ReasonCode.WAITING_TO_JOIN, params=params)


def _judge_session(session: SessionState, what: Circumstances) -> tuple[RunState, Reason | None]:
    if session.worker_gave_up:
        if session.worker_gave_up == "model_mismatch":
            return RunState.PROBLEM, Reason(code=ReasonCode.MODEL_MISMATCH)
        params = {"restarts": session.worker_restarts + 1}
        return RunState.PROBLEM, Reason(code=ReasonCode.WORKER_KEEPS_FAILING, params=dict(params))
    if session.catch_up_fraction is not None:
        percent = int(100 * session.catch_up_fraction)
        return RunState.CATCHING_UP, Reason(code=ReasonCode.FETCHING_MODEL, params={"percent": percent})
    if len(session.peers) + 1 < what.minimum_peers:
        if not what.hub.connected and what.hub.detail:
            return RunState.WAITING, Reason(code=ReasonCode.HUB_UNREACHABLE, params={"url": what.hub.url})
        if session.lacks_relay:
            return RunState.WAITING, Reason(code=ReasonCode.NO_RELAY)
        if what.others_unmet and not session.peers:
            others: dict[str, Scalar] = {"others": what.others_unmet} if what.others_unmet > 1 else {}
            return RunState.WAITING, Reason(code=ReasonCode.PEERS_NOT_REACHABLE, params=others)
        params = {"minimum_peers": what.minimum_peers}
        return RunState.WAITING, Reason(code=ReasonCode.LOOKING_FOR_PEERS, params=dict(params))
    if session.worker_state in ("stopped", "starting", "resting"):
        code = ReasonCode.WORKER_RESTARTING if session.worker_restarts else ReasonCode.STARTING_WORKER
        return RunState.WAITING, Reason(code=code)
    return (RunState.AVERAGING if session.in_round else RunState.TRAINING), None


class UnmetPeers:
    """How many computers the hub sees in the project, once none could be connected for UNMET_SECONDS."""

    def __init__(self) -> None:
        self._since: float | None = None

    def count(self, session: SessionState | None, peers_now: int | None, now: float) -> int:
        """0 while all is well. `peers_now` counts this computer; `now` is of a clock that never goes back."""
        others = (peers_now or 0) - 1
        if session is None or session.peers or others < 1:
            self._since = None
            return 0
        if self._since is None:
            self._since = now
        return others if now - self._since > UNMET_SECONDS else 0
