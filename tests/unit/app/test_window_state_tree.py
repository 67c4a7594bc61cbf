from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.state.tree import FIELDS, BadState, StateTree
from engine.contract.codec import Patch
from engine.contract.snapshot import CurvePoint, EngineState
from tests.helpers import toy_states


def raw(state: EngineState | None = None) -> dict[str, Any]:
    return dict(msgspec.to_builtins(state or toy_states.training()))


def patch(path: tuple[str, ...], value: Any, op: Any = "set") -> Patch:
    return Patch(rev=1, path=path, value=value, op=op)


@pytest.mark.parametrize("name", toy_states.ALL_STATES)
def test_a_snapshot_becomes_the_state_that_was_sent(name: str) -> None:
    state = toy_states.ALL_STATES[name]()
    assert StateTree(raw(state)).state == state


@pytest.mark.parametrize("field", FIELDS)
def test_setting_a_field_replaces_that_field_only(field: str) -> None:
    tree = StateTree(raw(toy_states.idle()))
    target = toy_states.trouble()
    assert tree.apply(patch((field,), msgspec.to_builtins(getattr(target, field)))) == field
    assert tree.state == msgspec.structs.replace(toy_states.idle(), **{field: getattr(target, field)})


def test_setting_a_part_of_a_field() -> None:
    tree = StateTree(raw())
    assert tree.apply(patch(("session", "global_step"), 65)) == "session"
    assert tree.state.session is not None
    assert tree.state.session.global_step == 65
    assert tree.state.session.title == "Pocket Python"


def test_points_are_appended_and_a_later_change_builds_on_them() -> None:
    tree = StateTree(raw())
    new = CurvePoint(global_step=65, at=1.0, train_loss=1.7, held_out_loss=None, tokens_total=9, mine=True)
    tree.apply(patch(("curve",), [msgspec.to_builtins(new)], "append"))
    tree.apply(patch(("curve",), [msgspec.to_builtins(new)], "append"))
    assert tree.state.curve == (*toy_states.curve(), new, new)
    tree.apply(patch(("curve",), []))
    assert tree.state.curve == ()


def test_appending_inside_a_field() -> None:
    tree = StateTree(raw())
    row = msgspec.to_builtins(toy_states.board(4).rows[3])
    tree.apply(patch(("leaderboard", "rows"), [row], "append"))
    assert tree.state.leaderboard.rows == toy_states.board(4).rows


def test_a_field_of_a_newer_engine_is_passed_over() -> None:
    tree = StateTree({**raw(), "weather": "fine"})
    assert tree.apply(patch(("weather",), "rain")) is None
    assert tree.apply(patch(("session", "mood"), "calm")) == "session"
    assert tree.state == toy_states.training()


@pytest.mark.parametrize(
    ("path", "value", "op"),
    [
        ((), 1, "set"),
        (("a", "b", "c"), 1, "set"),
        (("session",), 7, "set"),
        (("session", "global_step"), "many", "set"),
        (("status", "state"), "dancing", "set"),
        (("curve",), 7, "append"),
        (("curve",), [{"global_step": "x"}], "append"),
        (("status",), [1], "append"),
        (("status", "state"), ["x"], "append"),
        (("curve", "x"), 1, "set"),
    ],
)
def test_a_patch_that_fits_nowhere_is_refused(path: tuple[str, ...], value: Any, op: str) -> None:
    with pytest.raises(BadState):
        StateTree(raw()).apply(patch(path, value, op))


def test_there_are_no_parts_of_a_session_that_is_not_there() -> None:
    with pytest.raises(BadState):
        StateTree(raw(toy_states.idle())).apply(patch(("session", "global_step"), 1))


@pytest.mark.parametrize("state", [{}, {"engine": 1}, {"status": {"state": "dancing"}}])
def test_a_snapshot_that_is_no_state_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(BadState):
        StateTree(state)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from([*FIELDS, "global_step", "rows", "state", "peers", "nonsense"])


@given(st.lists(NAMES, max_size=3), JSON, st.sampled_from(["set", "append"]))
def test_any_patch_is_applied_or_refused_by_name(path: list[str], value: Any, op: str) -> None:
    tree = StateTree(raw())
    try:
        tree.apply(patch(tuple(path), value, op))
    except BadState:
        return
    assert isinstance(tree.state, EngineState)
