"""The one sentence's worth of state: what the engine does now, and why. PURE."""

from dataclasses import dataclass

from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import HubStatus, SessionState, Status
from engine.governor.policy import Decision


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All that the state follows from."""

    joined: bool
    leaving: bool
    minimum_peers: int
    session: SessionState | None
    decision: Decision
    hub: HubStatus


def status_of(what: Circumstances, previous: Status, now: float) -> Status:
    """The status at `now`; `since` stays as it was while state and causes stay."""
    state, reasons, resumes_at = _judge(what)
    codes = tuple(reason.code for reason in reasons)
    same = state == previous.state and codes == tuple(reason.code for reason in previous.reasons)
    return Status(state=state, reasons=reasons, since=previous.since if same else now, resumes_at=resumes_at)


def _judge(what: Circumstances) -> tuple[RunState, tuple[Reason, ...], float | None]:
    if not what.joined:
        return RunState.IDLE, (Reason(code=ReasonCode.NO_PROJECT),), None
    if what.leaving:
        return RunState.LEAVING, (Reason(code=ReasonCode.LEAVING_AFTER_ROUND),), None
    if not what.decision.computes:
        return RunState.PAUSED, what.decision.reasons, what.decision.resumes_at
    session = what.session
    if session is None:
        return RunState.CONNECTING, (Reason(code=ReasonCode.LOOKING_FOR_PEERS),), None
    state, reason = _judge_session(session, what)
    return state, what.decision.reasons if reason is None else (reason,), None


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
        params = {"minimum_peers": what.minimum_peers}
        return RunState.WAITING, Reason(code=ReasonCode.LOOKING_FOR_PEERS, params=dict(params))
    if session.worker_state in ("stopped", "starting", "resting"):
        code = ReasonCode.WORKER_RESTARTING if session.worker_restarts else ReasonCode.STARTING_WORKER
        return RunState.WAITING, Reason(code=code)
    return (RunState.AVERAGING if session.in_round else RunState.TRAINING), None
