import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import SessionState, Status
from engine.governor.model import Decision, RunLevel
from engine.runtime.account import accounted, worked_seconds
from engine.store.rows import Period

BATTERY = Reason(code=ReasonCode.ON_BATTERY)
ALONE = Reason(code=ReasonCode.LOOKING_FOR_PEERS)
NONE = Reason(code=ReasonCode.NO_PROJECT)
FULL = Decision(RunLevel.FULL, 1.0, 1)


def test_a_stop_is_the_decisions() -> None:
    stopped = Decision(RunLevel.STOPPED, 0.0, 0, (BATTERY,))
    assert accounted(stopped, Status(state=RunState.PAUSED), None) == ("stopped", (BATTERY,))


@pytest.mark.parametrize("state", [RunState.TRAINING, RunState.AVERAGING])
def test_work_is_work(state: RunState) -> None:
    assert accounted(FULL, Status(state=state), None) == ("full", ())


def test_what_only_waits_did_not_work() -> None:
    assert accounted(FULL, Status(state=RunState.WAITING, reasons=(ALONE,)), None) == ("network_only", (ALONE,))
    assert accounted(FULL, Status(state=RunState.IDLE, reasons=(NONE,)), None) == ("stopped", (NONE,))


def test_what_computes_while_it_waits_for_others_is_work_with_that_reason() -> None:
    session = SessionState(project_id="p", title="P", worker_state="training")
    reduced = Decision(RunLevel.REDUCED, 0.5, 1, (BATTERY,))
    waiting = Status(state=RunState.WAITING, reasons=(ALONE,))
    assert accounted(reduced, waiting, session) == ("reduced", (ALONE, BATTERY))


spans = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), st.sampled_from(RunLevel)), max_size=8)


@given(spans)
def test_only_work_within_the_span_counts(rows: list[tuple[float, float, RunLevel]]) -> None:
    periods = [Period(level.value, (), min(a, b), max(a, b), False) for a, b, level in rows]
    worked = [row for row in periods if row.level in ("full", "reduced")]
    inside = sum(max(0.0, min(row.to_at, 60.0) - max(row.from_at, 20.0)) for row in worked)
    assert worked_seconds(periods, 20.0, 60.0) == pytest.approx(inside)
