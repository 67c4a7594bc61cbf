from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import EngineInfo, EngineState, GovernorState, HubStatus, PeriodInfo, Status
from engine.contract.words import cause_sentence, reason_sentence, status_sentence
from engine.runtime.why import MAX_LATELY, why_sentences

BATTERY = Reason(code=ReasonCode.ON_BATTERY)
ACTIVE = Reason(code=ReasonCode.USER_ACTIVE)


def clock(at: float) -> str:
    return f"{at:.0f}"


def state(status: Status, governor: GovernorState) -> EngineState:
    info = EngineInfo(version="0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/")
    return EngineState(engine=info, status=status, hub=HubStatus(url="", connected=True), governor=governor)


def test_the_first_sentence_is_the_windows() -> None:
    paused = state(Status(state=RunState.PAUSED, reasons=(BATTERY,)), GovernorState(reasons=(BATTERY, ACTIVE)))
    lines = why_sentences(paused, (), clock, 100.0)
    assert lines == [status_sentence(paused.status, None, time_text=clock), reason_sentence(ACTIVE)]


def test_an_override_says_what_it_sets_aside() -> None:
    governor = GovernorState(level="full", override_until=3600.0, overridden=(ACTIVE,), duty=0.5, threads=2)
    lines = why_sentences(state(Status(state=RunState.TRAINING), governor), (), clock, 100.0)
    assert "You asked it to work until 3600 in spite of your limits." in lines
    assert f"Set aside until then: {cause_sentence(ACTIVE)}" in lines
    assert "It may use 2 threads, each for 50 % of the time." in lines


def test_staying_awake_is_told() -> None:
    training = Status(state=RunState.TRAINING)
    granted = why_sentences(state(training, GovernorState(keep_awake="granted")), (), clock, 0.0)
    refused = why_sentences(state(training, GovernorState(keep_awake="not allowed")), (), clock, 0.0)
    assert granted[-1] == "This computer is kept awake while it trains, as you asked."
    assert refused[-1] == "The system does not keep this computer awake: not allowed."


def test_the_last_day_comes_newest_first_without_blinks() -> None:
    periods = [PeriodInfo(level="full", from_at=float(at), to_at=at + 10.0) for at in range(0, 1000, 10)]
    periods += [PeriodInfo(level="stopped", from_at=1000.0, to_at=1000.2, reasons=(BATTERY,))]
    periods += [PeriodInfo(level="stopped", from_at=1000.2, to_at=1000.2, reasons=(BATTERY,), open=True)]
    lines = why_sentences(state(Status(state=RunState.PAUSED), GovernorState()), periods, clock, 1100.0)[1:]
    assert len(lines) == MAX_LATELY
    assert lines[0] == f"1000 to now  Paused. {cause_sentence(BATTERY)}"
    assert lines[1] == "990 to 1000  Training."
