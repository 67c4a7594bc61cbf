"""The one sentence's worth of state, from every circumstance."""

from typing import Any

import pytest

from engine.contract.reasons import Reason, ReasonCode, RunState
from engine.contract.snapshot import HubStatus, PeerInfo, SessionState, Status
from engine.contract.words import status_sentence
from engine.governor.policy import Decision, RunLevel
from engine.runtime.status import UNMET_SECONDS, Circumstances, UnmetPeers, status_of

HUB = HubStatus(url="http://127.0.0.1:1", connected=True)
AWAY = HubStatus(url="http://127.0.0.1:1", connected=False, detail="connection refused")
BEFORE = Status(state=RunState.IDLE, since=50.0)


def running() -> Decision:
    level = next(level for level in RunLevel if level is not RunLevel.STOPPED)
    return Decision(level, 1.0, 2)


def peer(number: int) -> PeerInfo:
    return PeerInfo(peer_id=str(number), name="", connected=True, path="lan")


def session(**changes: Any) -> SessionState:
    fields: dict[str, Any] = {"project_id": "p", "title": "P", "worker_state": "training", "peers": (peer(1),)}
    return SessionState(**{**fields, **changes})


def circumstances(**changes: Any) -> Circumstances:
    fields: dict[str, Any] = {
        "joined": True,
        "leaving": False,
        "minimum_peers": 2,
        "session": session(),
        "decision": running(),
        "hub": HUB,
    }
    return Circumstances(**{**fields, **changes})


def judged(**changes: Any) -> tuple[RunState, list[ReasonCode]]:
    status = status_of(circumstances(**changes), BEFORE, 100.0)
    return status.state, [reason.code for reason in status.reasons]


FULL = Reason(code=ReasonCode.DISK_FULL, params={"path": "/x"})
PAUSED = Decision(RunLevel.STOPPED, 0.0, 1, (Reason(code=ReasonCode.USER_PAUSED),), 500.0)


@pytest.mark.parametrize(
    ("changes", "state", "codes"),
    [
        ({"joined": False}, RunState.IDLE, [ReasonCode.NO_PROJECT]),
        ({"joined": False, "leaving": True, "decision": PAUSED}, RunState.IDLE, [ReasonCode.NO_PROJECT]),
        ({"leaving": True, "decision": PAUSED}, RunState.LEAVING, [ReasonCode.LEAVING_AFTER_ROUND]),
        ({"leaving": True, "leaving_now": True}, RunState.LEAVING, [ReasonCode.LEAVING_NOW]),
        ({"joined": False, "joining": "tides"}, RunState.WAITING, [ReasonCode.WAITING_TO_JOIN]),
        ({"session": None, "unusable": FULL}, RunState.WAITING, [ReasonCode.DISK_FULL]),
        ({"session": None, "unusable": FULL, "decision": PAUSED}, RunState.PAUSED, [ReasonCode.USER_PAUSED]),
        ({"session": session(peers=()), "others_unmet": 2}, RunState.WAITING, [ReasonCode.PEERS_NOT_REACHABLE]),
        (
            {"session": session(peers=(), lacks_relay=True), "others_unmet": 2},
            RunState.WAITING,
            [ReasonCode.NO_RELAY],
        ),
        ({"minimum_peers": 3, "others_unmet": 2}, RunState.WAITING, [ReasonCode.LOOKING_FOR_PEERS]),
        ({"decision": PAUSED}, RunState.PAUSED, [ReasonCode.USER_PAUSED]),
        ({"session": None}, RunState.CONNECTING, [ReasonCode.LOOKING_FOR_PEERS]),
        (
            {"session": session(worker_gave_up="model_mismatch", catch_up_fraction=0.5)},
            RunState.PROBLEM,
            [ReasonCode.MODEL_MISMATCH],
        ),
        (
            {"session": session(worker_gave_up="keeps_failing", peers=())},
            RunState.PROBLEM,
            [ReasonCode.WORKER_KEEPS_FAILING],
        ),
        (
            {"session": session(catch_up_fraction=0.25, worker_state="starting")},
            RunState.CATCHING_UP,
            [ReasonCode.FETCHING_MODEL],
        ),
        ({"session": session(peers=())}, RunState.WAITING, [ReasonCode.LOOKING_FOR_PEERS]),
        ({"session": session(peers=()), "hub": AWAY}, RunState.WAITING, [ReasonCode.HUB_UNREACHABLE]),
        ({"hub": AWAY}, RunState.TRAINING, []),
        ({"session": session(worker_state="starting")}, RunState.WAITING, [ReasonCode.STARTING_WORKER]),
        ({"session": session(worker_state="stopped")}, RunState.WAITING, [ReasonCode.STARTING_WORKER]),
        (
            {"session": session(worker_state="stopped", worker_restarts=1)},
            RunState.WAITING,
            [ReasonCode.WORKER_RESTARTING],
        ),
        ({"session": session(in_round=True)}, RunState.AVERAGING, []),
        ({"session": session(worker_state="frozen")}, RunState.TRAINING, []),
        ({"minimum_peers": 1, "session": session(peers=())}, RunState.TRAINING, []),
    ],
)
def test_state_and_reasons(changes: dict[str, Any], state: RunState, codes: list[ReasonCode]) -> None:
    assert judged(**changes) == (state, codes)


def test_reasons_carry_what_their_sentences_need() -> None:
    def params(**changes: Any) -> dict[str, object]:
        return dict(status_of(circumstances(**changes), BEFORE, 1.0).reasons[0].params)

    assert params(session=session(catch_up_fraction=0.256)) == {"percent": 25}
    assert params(session=session(peers=()), minimum_peers=5) == {"minimum_peers": 5}
    assert params(session=session(peers=()), hub=AWAY) == {"url": AWAY.url}
    assert params(session=session(worker_gave_up="x", worker_restarts=2)) == {"restarts": 3}


def test_waiting_to_join_says_for_what() -> None:
    def sentence(**changes: Any) -> str:
        return status_sentence(status_of(circumstances(joined=False, joining="tides", **changes), BEFORE, 1.0))

    assert sentence() == ("Waiting. Potluck joins tides when the hub lists it. Potluck keeps trying.")
    assert f"Potluck joins tides when the hub at {AWAY.url} answers." in sentence(hub=AWAY)


def test_computers_that_cannot_be_reached_are_counted() -> None:
    def sentence(others: int) -> str:
        what = circumstances(session=session(peers=()), others_unmet=others)
        return status_sentence(status_of(what, BEFORE, 1.0), what.session)

    assert "2 other computers were found; none could be connected yet." in sentence(2)
    assert "Another computer was found; it could not be connected yet." in sentence(1)


def test_others_are_unmet_only_after_a_while() -> None:
    alone, unmet = session(peers=()), UnmetPeers()
    assert unmet.count(alone, 3, 100.0) == 0
    assert unmet.count(alone, 3, 100.0 + UNMET_SECONDS) == 0
    assert unmet.count(alone, 3, 101.0 + UNMET_SECONDS) == 2
    assert unmet.count(session(), 3, 130.0) == 0
    assert unmet.count(alone, 3, 131.0) == 0
    assert unmet.count(alone, 1, 500.0) == 0
    assert unmet.count(alone, None, 600.0) == 0
    assert unmet.count(None, 3, 700.0) == 0


def test_a_pause_says_when_it_ends() -> None:
    assert status_of(circumstances(decision=PAUSED), BEFORE, 100.0).resumes_at == 500.0


def test_since_stays_while_state_and_causes_stay() -> None:
    first = status_of(circumstances(session=session(catch_up_fraction=0.1)), BEFORE, 100.0)
    assert first.since == 100.0
    later = status_of(circumstances(session=session(catch_up_fraction=0.9)), first, 200.0)
    assert later.since == 100.0
    assert later.reasons[0].params == {"percent": 90}
    other = status_of(circumstances(), later, 300.0)
    assert (other.state, other.since) == (RunState.TRAINING, 300.0)
    waiting = status_of(circumstances(session=session(peers=())), other, 400.0)
    blamed = status_of(circumstances(session=session(peers=()), hub=AWAY), waiting, 500.0)
    assert (waiting.since, blamed.since) == (400.0, 500.0)
