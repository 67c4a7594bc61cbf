"""The contract's codes in the user's language: the engine's templates, passed through Qt's translator."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from app.format import clock, count
from app.language import say
from app.link.client import LinkDetail, LinkState, LinkStatus
from app.link.operation import Failure, FailureKind
from engine.contract import words
from engine.contract.errors import ControlError
from engine.contract.reasons import Problem, Reason, ReasonCode, RunState
from engine.contract.snapshot import EngineState, Status

WORDS_CONTEXT: Final = "words"
"""Translation context of the engine's templates; see resources/translations/README.md."""

GOVERNED: Final = frozenset({RunState.PAUSED, RunState.TRAINING, RunState.AVERAGING, RunState.WAITING})
"""States in which what the limits allow is worth a word."""

_FIRST_SENTENCE: Final = re.compile(r"(.+?[.。])(?:\s+(.*))?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is so, and below it why and what comes next."""

    head: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.head} {self.detail}".strip()


def translate(template: str) -> str:
    """One of the engine's templates in the user's language."""
    return say(WORDS_CONTEXT, template)


def split(sentences: str) -> Sentence:
    """The first sentence apart from the others."""
    match = _FIRST_SENTENCE.match(sentences)
    return Sentence(match.group(1), match.group(2) or "") if match else Sentence(sentences)


def state_sentence(state: EngineState) -> Sentence:
    """What the engine is doing, why, and what comes next."""
    return split(words.status_sentence(state.status, state.session, translate, clock))


def state_label(state: RunState) -> str:
    """The state in a word or two."""
    return words.state_label(state, translate)


def cause_text(reason: Reason) -> str:
    """A reason's cause alone."""
    return words.cause_sentence(reason, translate)


def level_label(level: str) -> str:
    """A level of the governor in a word or a few."""
    template = words.LEVEL_LABELS.get(level)
    return translate(template) if template else say("status", "Not known")


def preset_label(preset: str) -> str:
    """A preset's name."""
    template = words.PRESET_LABELS.get(preset)
    return translate(template) if template else preset


def setting_label(name: str) -> str:
    """A setting's name as errors and the command line say it."""
    return translate(words.SETTING_LABELS[name])


def active_reasons(state: EngineState) -> tuple[Reason, ...]:
    """Every reason that holds now, the status's own first, each once."""
    found = list(state.status.reasons)
    if state.session is not None and state.status.state in GOVERNED:
        known = {reason.code for reason in found}
        found += [reason for reason in state.governor.reasons if reason.code not in known]
    return tuple(found)


def reason_lines(state: EngineState) -> tuple[Sentence, tuple[str, ...]]:
    """The state, with its one reason; or the state alone and each of several reasons with what ends it."""
    reasons = active_reasons(state)
    whole = state_sentence(
        msgspec.structs.replace(state, status=msgspec.structs.replace(state.status, reasons=reasons))
    )
    if len(reasons) < 2:
        return whole, ()
    lines = tuple(words.reason_sentence(reason, translate) for reason in reasons)
    return Sentence(whole.head, _resumes_text(state.status, reasons)), lines


def _resumes_text(status: Status, reasons: tuple[Reason, ...]) -> str:
    """When all of several reasons have passed."""
    moves = any(reason.code is ReasonCode.USER_ACTIVE for reason in reasons)  # its end moves with every key pressed
    if status.resumes_at is not None and not moves:
        return translate(words.RESUMES_AT).replace("{time}", clock(status.resumes_at))
    return translate(words.RESUMES_AFTER_ALL) if status.state in (RunState.PAUSED, RunState.WAITING) else ""


def tray_line(state: EngineState) -> str:
    """State and its first cause on one line, or the pace."""
    label = state_label(state.status.state)
    if state.status.reasons and state.status.reasons[0].code is not ReasonCode.NO_PROJECT:
        return f"{label} – {words.cause_sentence(state.status.reasons[0], translate)}"  # noqa: RUF001
    if state.session is not None and state.session.my_tokens_per_second:
        pace = count(round(state.session.my_tokens_per_second))
        return say("status", "{state} – about {pace} tokens/s").format(state=label, pace=pace)  # noqa: RUF001
    return label


def tray_tip(state: EngineState) -> str:
    """The sentence of state, as `potluck why` begins."""
    return str(state_sentence(state))


def link_sentence(status: LinkStatus, *, gave_up: bool) -> Sentence:
    """What to say while the engine cannot be spoken to."""
    if status.detail is LinkDetail.ENGINE_OLDER:
        return Sentence(
            say("status", "Potluck's background part is older than this window."),
            say("status", "Stop it with Potluck's old version, then try again."),
        )
    if status.detail is LinkDetail.ENGINE_NEWER:
        return Sentence(
            say("status", "Potluck's background part is newer than this window."),
            say("status", "Close this window and open Potluck again."),
        )
    if status.detail is LinkDetail.TURNED_AWAY:
        return Sentence(
            say("status", "Potluck's background part did not let this window in."),
            say("status", "Potluck keeps trying."),
        )
    if status.detail is LinkDetail.STOPPED:
        return Sentence(say("status", "Potluck is stopped."), say("status", "Training is off until you start it."))
    if status.state is LinkState.SILENT:
        shown = say("status", "Shown is the state of {time}. Potluck keeps asking.")
        return Sentence(
            say("status", "Potluck's background part does not answer."), shown.format(time=clock(status.heard_at))
        )
    if gave_up:
        return Sentence(
            say("status", "Potluck's background part does not start."),
            say("status", "Training is off. Potluck's log says why. Try again when you like."),
        )
    if status.detail is LinkDetail.LOST:
        return Sentence(
            say("status", "Potluck's background part does not answer."),
            say("status", "What you see is the last it said. Potluck keeps trying."),
        )
    if status.state is LinkState.ABSENT:
        return Sentence(say("status", "Starting Potluck."), say("status", "This takes a few seconds."))
    return Sentence(say("status", "Connecting to Potluck's background part."), say("status", "This takes a moment."))


def problem_sentences(problem: Problem) -> tuple[str, str]:
    """A problem's title, and its text with what to do."""
    return words.problem_sentences(problem, translate)


def action_label(problem: Problem) -> str:
    """The word on a problem's button; empty when there is none."""
    return words.action_label(problem.action, translate)


def failure_sentence(failure: Failure) -> str:
    """Why a request did not succeed, ending with one action."""
    if failure.error is not None:
        return words.error_sentence(failure.error.code, failure.error.params, translate)
    if failure.kind is FailureKind.TIMED_OUT:
        return say("status", "Potluck's background part took too long to answer. Try again.")
    if failure.kind is FailureKind.REFUSED:
        return say("status", "That is too long. Shorten it and try again.")
    return say("status", "Potluck's background part is not connected. Try again when it is back.")


def refusal_sentence(error: ControlError) -> str:
    """Why a value cannot be a setting, found before it was sent."""
    return words.error_sentence(error.code, error.params, translate)
