import pytest

from app.link.client import LinkDetail, LinkState, LinkStatus
from app.link.operation import Failure, FailureKind
from app.words import (
    Sentence,
    failure_sentence,
    link_sentence,
    problem_sentences,
    split,
    state_sentence,
    tray_line,
)
from engine.contract.errors import ErrorBody, ErrorCode
from engine.contract.reasons import Problem, ProblemAction, ProblemCode, Reason, ReasonCode, RunState
from engine.contract.snapshot import EngineState, Status
from tests.helpers import toy_states


def with_status(state: RunState, *reasons: ReasonCode) -> EngineState:
    status = Status(state=state, reasons=tuple(Reason(code=code) for code in reasons))
    return EngineState(
        engine=toy_states.engine_info(), status=status, hub=toy_states.idle().hub, session=toy_states.session()
    )


def test_state_first_then_cause_and_next() -> None:
    assert state_sentence(toy_states.on_battery()) == Sentence(
        "Paused.", "You are on battery. Resumes when plugged in."
    )
    assert state_sentence(toy_states.training()) == Sentence("Training with 2 other computers.")


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("reason", ReasonCode)
def test_every_state_with_every_reason_has_words(state: RunState, reason: ReasonCode) -> None:
    sentence = state_sentence(with_status(state, reason))
    assert sentence.head.endswith(".")
    assert "{" not in str(sentence)
    assert tray_line(with_status(state, reason))


@pytest.mark.parametrize("code", ProblemCode)
def test_every_problem_has_a_title_and_a_text(code: ProblemCode) -> None:
    title, text = problem_sentences(Problem(problem_id="x", code=code, action=ProblemAction.DISMISS, at=0.0))
    assert title
    assert text.endswith(".")


@pytest.mark.parametrize("code", ErrorCode)
def test_every_refusal_ends_with_what_to_do(code: ErrorCode) -> None:
    assert failure_sentence(Failure(FailureKind.REFUSED, ErrorBody(code=code))).endswith(".")


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_has_a_sentence(kind: FailureKind) -> None:
    assert failure_sentence(Failure(kind)).endswith(".")


@pytest.mark.parametrize("state", LinkState)
@pytest.mark.parametrize("detail", LinkDetail)
@pytest.mark.parametrize("gave_up", [True, False])
def test_every_state_of_the_link_says_what_comes_next(state: LinkState, detail: LinkDetail, gave_up: bool) -> None:
    sentence = link_sentence(LinkStatus(state, detail), gave_up=gave_up)
    assert sentence.head.endswith(".")
    assert sentence.detail.endswith(".")


@pytest.mark.parametrize(
    ("text", "head", "detail"),
    [
        ("Paused. You rest. Then more.", "Paused.", "You rest. Then more."),
        ("Paused.", "Paused.", ""),
        ("no full stop", "no full stop", ""),
        ("一時停止。 理由。", "一時停止。", "理由。"),
        ("", "", ""),
    ],
)
def test_the_first_sentence_is_the_headline(text: str, head: str, detail: str) -> None:
    assert split(text) == Sentence(head, detail)


def test_the_tray_names_the_first_cause_or_the_pace() -> None:
    assert tray_line(toy_states.on_battery()).startswith("Paused")
    assert "battery" in tray_line(toy_states.on_battery())
    assert "4,120 tokens/s" in tray_line(toy_states.training())
    assert tray_line(toy_states.idle()) == "Ready"
