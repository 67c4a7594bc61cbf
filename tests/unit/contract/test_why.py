import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import GovernorState, PeriodInfo, Status
from engine.contract.why import duration_text, period_sentence, spent, spent_sentences, why_sentences
from engine.contract.words import status_sentence

BATTERY = Reason(code=ReasonCode.ON_BATTERY)
USER = Reason(code=ReasonCode.USER_ACTIVE)
HEAT = Reason(code=ReasonCode.LESS_FOR_HEAT, params={"target_celsius": 80})


def clock(at: float) -> str:
    return f"{at:.0f} o'clock"


def period(level: str, start: float, end: float, *reasons: Reason) -> PeriodInfo:
    return PeriodInfo(level=level, from_at=start, to_at=end, reasons=reasons)


def test_the_first_sentence_is_the_one_of_window_and_tray():
    status = Status(state=RunState.PAUSED, reasons=(BATTERY, USER))
    governor = GovernorState(reasons=(BATTERY, USER))
    assert why_sentences(status, None, governor) == (status_sentence(status),)


def test_all_reasons_are_told_even_those_that_the_sentence_has_no_room_for():
    codes = [ReasonCode.TOO_HOT, ReasonCode.USER_PAUSED, ReasonCode.ON_BATTERY, ReasonCode.METERED]
    reasons = tuple(Reason(code=code) for code in (*codes, ReasonCode.GPU_FULL_SCREEN))
    said = why_sentences(Status(state=RunState.PAUSED, reasons=reasons), None, GovernorState(reasons=reasons))
    assert said[1:] == (
        "This network is metered. Resumes on another network.",
        "A program fills the screen, so the graphics card is left to it. It is used again when that program is done.",
    )


def test_what_lessens_the_work_is_told_while_training():
    status = Status(state=RunState.TRAINING, reasons=(HEAT,))
    (said,) = why_sentences(status, None, GovernorState(level="reduced", reasons=(HEAT,)))
    assert said == "Training. It works less, to stay near 80 °C. It works more when it is cooler."


def test_an_override_tells_what_it_sets_aside():
    governor = GovernorState(level="full", overridden=(USER,), override_until=5.0)
    said = why_sentences(Status(state=RunState.TRAINING), None, governor, time_text=clock)
    assert said == ("Training.", "Set aside until 5 o'clock: You are using this computer.")


def test_a_day_is_added_up():
    periods = (
        period("full", 0, 3600),
        period("stopped", 3600, 5400, BATTERY),
        period("reduced", 5400, 7200, HEAT),
        period("network_only", 7200, 14_400, USER, BATTERY),
        period("stopped", 18_000, 18_030, BATTERY),
    )
    day = spent(periods, 0, 18_030)
    assert day.by_level == {"full": 3600, "reduced": 1800, "network_only": 7200, "stopped": 1830}
    assert day.by_reason == ((USER, 7200), (BATTERY, 1830))
    assert (day.worked_seconds, day.ran_seconds, day.unknown_seconds) == (5400, 14_430, 3600)
    assert spent_sentences(day, 0, clock) == (
        "Since 0 o'clock it trained 1 h 30 min of 5 h 0 min.",
        "2 h 0 min: You are using this computer.",
        "30 min: You are on battery.",
        "1 h 0 min: Potluck was not running.",
    )


spans = st.lists(st.tuples(st.sampled_from(["full", "reduced", "stopped"]), st.floats(-50, 150), st.floats(0, 60)))


@given(spans, st.floats(0, 50), st.floats(50, 100))
def test_every_second_is_accounted_once(rows, from_at, to_at):
    """Also when the clock was set back and periods overlap."""
    periods = [period(level, start, start + length, BATTERY) for level, start, length in rows]
    result = spent(periods, from_at, to_at)
    assert result.ran_seconds + result.unknown_seconds == pytest.approx(to_at - from_at)
    assert all(seconds > 0 for seconds in result.by_level.values())
    stopped = sum(seconds for _, seconds in result.by_reason)
    assert stopped == pytest.approx(result.by_level.get("stopped", 0.0))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (3569, "59 min"), (3570, "1 h 0 min"), (90_000, "25 h 0 min")],
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text


def test_what_it_may_use_and_whether_it_keeps_awake_is_told():
    training = Status(state=RunState.TRAINING)
    governor = GovernorState(level="full", threads=2, duty=0.755, keep_awake="granted")
    assert why_sentences(training, None, governor)[1:] == (
        "It may use 2 threads, each for 76 % of the time.",
        "This computer is kept awake while it trains, as you asked.",
    )
    one = GovernorState(level="full", threads=1, duty=0.5)
    assert why_sentences(training, None, one)[1] == "It may use one thread, for 50 % of the time."
    refused = why_sentences(training, None, GovernorState(keep_awake="not allowed by the desktop."))
    assert refused[1] == "The system does not keep this computer awake: not allowed by the desktop."


def test_a_line_of_the_record():
    assert period_sentence(period("stopped", 1, 5, BATTERY, USER), clock) == (
        "1 o'clock to 5 o'clock: Paused. You are on battery. You are using this computer."
    )
    going_on = PeriodInfo(level="full", from_at=1, to_at=5, open=True)
    assert period_sentence(going_on, clock) == "Since 1 o'clock: Training."
