from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import EngineInfo, EngineState, GovernorState, HubStatus, PeriodInfo, Status
from engine.contract.words import status_sentence
from engine.governor.why import MAX_LATELY, why

NOW = 1_700_000_000.0
BATTERY = Reason(code=ReasonCode.ON_BATTERY)
STATE = EngineState(
    engine=EngineInfo(version="0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/d"),
    status=Status(state=RunState.PAUSED, reasons=(BATTERY,)),
    hub=HubStatus(url="", connected=False),
    governor=GovernorState(reasons=(BATTERY,)),
)


def clock(at: float) -> str:
    return f"{(at - NOW) / 60:+.0f} min"


def test_the_answer_is_now_and_the_time_before():
    periods = (
        PeriodInfo(level="full", from_at=NOW - 1200, to_at=NOW - 600),
        PeriodInfo(level="network_only", from_at=NOW - 600, to_at=NOW - 599.5),
        PeriodInfo(level="stopped", reasons=(BATTERY,), from_at=NOW - 599.5, to_at=NOW, open=True),
    )
    assert why(STATE, periods, NOW - 1200, NOW, clock) == (
        status_sentence(STATE.status),
        "Since -20 min it trained 10 min of 20 min.",
        "10 min: You are on battery.",
        "Since -10 min: Paused. You are on battery.",
        "-20 min to -10 min: Training.",
    )


def test_a_long_record_is_cut():
    periods = tuple(PeriodInfo(level="full", from_at=NOW + n, to_at=NOW + n + 1) for n in range(100))
    said = why(STATE, periods, NOW, NOW + 100, clock)
    assert len([line for line in said if " to " in line]) == MAX_LATELY
