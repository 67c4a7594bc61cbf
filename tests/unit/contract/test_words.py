import re
import string
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import words
from engine.contract.errors import ErrorCode
from engine.contract.reasons import Problem, ProblemAction, ProblemCode, Reason, ReasonCode, RunState
from engine.contract.snapshot import PeerInfo, SessionState, Settings, Status

JARGON = ("epoch", "all-reduce", "sctp", "socket", "engine", "peer", "manifest", "torch", "traceback", "exception")
GROUPS: tuple[Mapping[str, tuple[str, ...]], ...] = (
    words.STATES,
    words.CAUSES,
    words.NEXT,
    words.PROBLEM_TITLES,
    words.PROBLEM_TEXTS,
    words.ERRORS,
)


def visible(template: str) -> str:
    return re.sub(r"\{[a-z_]+\}", "", template)


def session(*connected: bool, catch_up: float | None = None) -> SessionState:
    peers = tuple(
        PeerInfo(peer_id=f"{index}", name="", connected=up, path="loopback") for index, up in enumerate(connected)
    )
    return SessionState(project_id="0" * 64, title="Pocket Python", peers=peers, catch_up_fraction=catch_up)


@pytest.mark.parametrize(
    ("enum", "table"),
    [
        (RunState, words.STATES),
        (RunState, words.STATE_LABELS),
        (ReasonCode, words.CAUSES),
        (ReasonCode, words.NEXT),
        (ProblemCode, words.PROBLEM_TITLES),
        (ProblemCode, words.PROBLEM_TEXTS),
        (ProblemAction, words.ACTION_LABELS),
        (ErrorCode, words.ERRORS),
    ],
)
def test_every_code_has_words(enum, table):
    assert set(table) == set(enum)


def test_every_setting_has_a_label():
    assert set(words.SETTING_LABELS) == set(Settings.__struct_fields__)


@pytest.mark.parametrize("template", words.all_templates())
def test_words_obey_the_rules(template):
    assert "!" not in template
    assert template == template.strip()
    assert all(len(sentence) <= 90 for sentence in re.split(r"(?<=\.) ", template))
    said = set(re.findall(r"[a-z-]+", visible(template).lower()))
    assert not said & {*JARGON, *(f"{word}s" for word in JARGON)}
    parsed = [name for _, name, spec, conversion in string.Formatter().parse(template) if name or spec or conversion]
    assert parsed == words._PLACEHOLDER.findall(template)


@pytest.mark.parametrize("group", GROUPS)
def test_the_plainest_template_needs_nothing(group):
    for templates in group.values():
        assert not words._PLACEHOLDER.findall(templates[-1])


@pytest.mark.parametrize("group", [words.STATES, words.CAUSES, words.NEXT, words.PROBLEM_TEXTS, words.ERRORS])
def test_sentences_end_with_a_full_stop(group):
    assert all(text.endswith(".") for templates in group.values() for text in templates)


def test_titles_and_labels_have_no_full_stop():
    texts = [text for templates in words.PROBLEM_TITLES.values() for text in templates]
    texts += [*words.STATE_LABELS.values(), *words.ACTION_LABELS.values(), *words.SETTING_LABELS.values()]
    assert not any(text.endswith(".") for text in texts)


@pytest.mark.parametrize("code", ErrorCode)
def test_errors_end_with_an_action(code):
    for template in words.ERRORS[code]:
        last = re.split(r"(?<=[.:]) ", template)[-1]
        assert last.split()[0].rstrip(",") in {"Correct", "Restart", "Quit", "Choose", "Copy", "Check", "Try"}


def test_training_counts_connected_computers():
    training = Status(state=RunState.TRAINING)
    assert words.status_sentence(training, session(True, False, True)) == "Training with 2 other computers."
    assert words.status_sentence(training, session(True, False)) == "Training with 1 other computer."
    assert words.status_sentence(training, session(False)) == "Training. No other computer is connected now."
    assert words.status_sentence(training, None) == "Training."


def test_paused_says_cause_and_next():
    paused = Status(state=RunState.PAUSED, reasons=(Reason(code=ReasonCode.ON_BATTERY),))
    assert words.status_sentence(paused, None) == "Paused. You are on battery. Resumes when plugged in."


def test_a_known_time_replaces_the_condition():
    paused = Status(state=RunState.PAUSED, reasons=(Reason(code=ReasonCode.USER_PAUSED),), resumes_at=7.0)
    text = words.status_sentence(paused, None, time_text=lambda at: f"14:0{at:.0f}")
    assert text == "Paused. You paused it. Resumes at 14:07."


def test_a_time_that_moves_with_every_key_is_not_named():
    paused = Status(state=RunState.PAUSED, reasons=(Reason(code=ReasonCode.USER_ACTIVE),), resumes_at=7.0)
    text = words.status_sentence(paused, None, time_text=str)
    assert text == "Paused. You are using this computer. Resumes when you are away."


def test_two_causes_do_not_promise_that_one_is_enough():
    reasons = (Reason(code=ReasonCode.ON_BATTERY), Reason(code=ReasonCode.USER_ACTIVE))
    text = words.status_sentence(Status(state=RunState.PAUSED, reasons=reasons), None)
    assert text == "Paused. You are on battery. You are using this computer. Resumes when all of this has passed."


def test_states_without_reasons_explain_themselves():
    assert (
        words.status_sentence(Status(state=RunState.IDLE))
        == "Ready. You have not joined a project. Choose one under Projects."
    )
    text = words.status_sentence(Status(state=RunState.CATCHING_UP), session(True, catch_up=0.404))
    assert text == "Catching up. About 40 % of the shared model is here. Training starts when all of it is here."


def test_parameters_choose_the_more_telling_template():
    assert words.cause_sentence(Reason(code=ReasonCode.TOO_HOT)) == "This computer is too hot."
    hot = Reason(code=ReasonCode.TOO_HOT, params={"celsius": 93.4, "limit_celsius": 85})
    assert words.reason_sentence(hot) == "This computer is too hot (93 °C). Resumes below 85 °C."


def test_a_detail_stays_one_sentence():
    params = {"url": "http://127.0.0.1:1", "detail": "refused.\nby\tthe other side. "}
    problem = Problem(
        problem_id="p", code=ProblemCode.HUB_UNREACHABLE, action=ProblemAction.RETRY_HUB, at=0.0, params=params
    )
    title, text = words.problem_sentences(problem)
    assert title == "The hub cannot be reached"
    assert text.startswith("http://127.0.0.1:1: refused. by the other side. Connected computers go on.")


def test_settings_are_named_as_in_the_window():
    text = words.error_sentence(ErrorCode.BAD_SETTING, {"name": "cpu_share_percent", "detail": "must be 5 to 100"})
    assert text == "Share of the processor was not changed: must be 5 to 100. Choose another value."


def test_the_translator_sees_templates_not_filled_text():
    seen: list[str] = []

    def translate(text: str) -> str:
        seen.append(text)
        return text.replace("computers", "Rechnern")

    text = words.status_sentence(Status(state=RunState.TRAINING), session(True, True), translate)
    assert text == "Training with 2 other Rechnern."
    assert set(seen) <= set(words.all_templates())


def test_a_slip_in_a_translation_shows_a_question_mark():
    reason = Reason(code=ReasonCode.ON_BATTERY)
    assert words.cause_sentence(reason, lambda _: "Akku {prozent} { } %s {0}") == "Akku ? { } %s {0}"


names = st.sampled_from(["url", "detail", "path", "backup_path", "celsius", "restarts", "name", "x", "report_id"])
scalars = st.one_of(st.text(max_size=400), st.integers(), st.floats(), st.booleans())
params_of_any_kind = st.dictionaries(names, scalars)


@given(params=params_of_any_kind)
def test_no_parameters_ever_raise_or_run_away(params):
    for reason_code in ReasonCode:
        assert words.reason_sentence(Reason(code=reason_code, params=params))
    for error_code in ErrorCode:
        text = words.error_sentence(error_code, params)
        assert "\n" not in text
        assert len(text) < 1200
    for problem_code in ProblemCode:
        problem = Problem(problem_id="p", code=problem_code, action=ProblemAction.NONE, at=0.0, params=params)
        assert all(words.problem_sentences(problem))


def test_labels_translate():
    assert words.action_label(ProblemAction.RETRY_HUB, str.upper) == "TRY AGAIN"
    assert words.action_label(ProblemAction.NONE, str.upper) == ""
    assert words.state_label(RunState.PAUSED) == "Paused"
    assert msgspec.json.encode(RunState.PAUSED) == b'"paused"'
