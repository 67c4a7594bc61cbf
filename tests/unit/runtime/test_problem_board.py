"""Problem cards: one for each thing that is wrong, newest first."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoints.errors import CheckpointError
from engine.contract.reasons import ProblemAction, ProblemCode, Reason, ReasonCode, Scalar
from engine.core.errors import UserError
from engine.runtime.problems import MAX_PROBLEMS, ProblemBoard, folder_trouble, problem_id


def add(board: ProblemBoard, code: ProblemCode, at: float = 1.0, **params: Scalar) -> str:
    return board.add(code, ProblemAction.DISMISS, params, at).problem_id


def test_the_same_trouble_is_one_card_brought_up_to_date() -> None:
    board = ProblemBoard()
    first = add(board, ProblemCode.HUB_UNREACHABLE, 1.0, url="http://a", detail="refused")
    add(board, ProblemCode.STORE_UNWRITABLE, 2.0, path="/p", detail="full")
    again = add(board, ProblemCode.HUB_UNREACHABLE, 3.0, url="http://a", detail="timed out")
    other = add(board, ProblemCode.HUB_UNREACHABLE, 4.0, url="http://b", detail="refused")
    assert first == again != other
    assert [(card.at, card.params.get("detail")) for card in board.shown()] == [
        (4.0, "refused"),
        (3.0, "timed out"),
        (2.0, "full"),
    ]


def test_restarts_and_reports_do_not_make_another_card() -> None:
    for name in ("restarts", "report_id", "detail"):
        assert problem_id(ProblemCode.INTERNAL, {name: 1}) == problem_id(ProblemCode.INTERNAL, {name: 2})
    assert problem_id(ProblemCode.INTERNAL, {"step": 1}) != problem_id(ProblemCode.INTERNAL, {"step": 2})
    assert problem_id(ProblemCode.INTERNAL, {}) != problem_id(ProblemCode.NO_KEYRING, {})


def test_dismissing_and_mending() -> None:
    board = ProblemBoard()
    one = add(board, ProblemCode.NO_KEYRING)
    add(board, ProblemCode.HUB_UNREACHABLE, url="a")
    add(board, ProblemCode.HUB_UNREACHABLE, url="b")
    board.remove(one)
    board.remove(one)
    board.remove("no such card")
    assert board.mend(ProblemCode.HUB_UNREACHABLE)
    assert not board.mend(ProblemCode.HUB_UNREACHABLE)
    assert board.shown() == ()


@given(st.lists(st.tuples(st.sampled_from(ProblemCode), st.integers(0, 60)), max_size=80))
def test_the_oldest_go_when_there_are_too_many(events: list[tuple[ProblemCode, int]]) -> None:
    board = ProblemBoard()
    for at, (code, number) in enumerate(events):
        add(board, code, float(at), path=str(number))
    times = [card.at for card in board.shown()]
    assert times == sorted(times, reverse=True)
    assert len(times) == min(MAX_PROBLEMS, len(set(events)))
    assert len({card.problem_id for card in board.shown()}) == len(times)


def test_a_fact_about_this_computer_is_dismissed_for_good_and_an_event_is_not() -> None:
    board = ProblemBoard()
    fact = add(board, ProblemCode.NO_KEYRING, path="/p")
    event = add(board, ProblemCode.INTERNAL, report_id="a")
    assert board.dismiss(fact)
    assert not board.dismiss(event)
    assert not board.dismiss("no-such-card")
    assert board.shown() == ()
    add(board, ProblemCode.NO_KEYRING, path="/p")
    add(board, ProblemCode.INTERNAL, report_id="b")
    assert [card.code for card in board.shown()] == [ProblemCode.INTERNAL]


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    saving = CheckpointError(tmp_path, "disk full", "Free some space.")
    saving.__cause__ = full
    for error in (full, saving):
        trouble = folder_trouble(error, tmp_path)
        assert (trouble.code, trouble.params) == (ProblemCode.FOLDER_DISK_FULL, {"path": str(tmp_path)})
        assert trouble.reason == Reason(code=ReasonCode.DISK_FULL, params={"path": str(tmp_path)})


def test_a_folder_that_is_none_is_told_without_numbers(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError) as caught:
        (file / "below").mkdir()
    trouble = folder_trouble(caught.value, file)
    assert (trouble.code, trouble.params["detail"]) == (ProblemCode.FOLDER_UNUSABLE, "Not a directory")
    assert trouble.reason.code is ReasonCode.STORE_UNWRITABLE
    told = folder_trouble(UserError("It cannot be read."), file)
    assert told.params == {"path": str(file), "detail": "It cannot be read."}
