"""The engine with real store and hub: limits, the hub, the store, and the cards that it shows."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from engine.contract import commands as c
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.reasons import ProblemAction, ProblemCode, ReasonCode, RunState
from engine.control.dispatch import Face
from engine.core.clock import ManualClock
from engine.identity.vault import IdentityStore, LoadedIdentity
from engine.manifest.verify import open_signed
from engine.runtime import guest_memory
from engine.runtime.session_events import LeaveRequest
from engine.store.errors import StoreWriteError
from engine.store.service import open_store
from tests.helpers.guards import ExpectLog
from tests.helpers.hub_samples import identity
from tests.helpers.run_engine import Engine, a_hub, an_engine, signed

pytestmark = pytest.mark.integration

TIDES, SONGS = signed("tides"), signed("songs")
TIDES_ID = open_signed(TIDES).project_id
SONGS_ID = open_signed(SONGS).project_id


def a_free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def trains(engine: Engine, project_id: str = TIDES_ID, rounds: int = 1) -> bool:
    session = engine.state.session
    return session is not None and session.project_id == project_id and session.rounds_committed >= rounds


# Limits.


async def test_settings_take_effect_at_once(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        await engine.do(c.ChangeSettings(changes={"cpu_share_percent": 75, "upload_limit_bytes_per_second": 50_000}))
        await engine.until(lambda: (engine.trainer.threads, engine.trainer.duty) == (3, 1.0))
        network = engine.sessions[0]._parts.network
        assert network.upload_limit_bytes_per_second == 50_000  # type: ignore[attr-defined]
        assert engine.state.settings.cpu_share_percent == 75
        for changes in ({"cpu_share_percent": 4}, {"no_such": 1}, {"hub_url": "ftp://x"}, {"hub_url": "http://a b"}):
            with pytest.raises(ControlError) as caught:
                await engine.do(c.ChangeSettings(changes=dict(changes)))
            assert caught.value.code is ErrorCode.BAD_SETTING
        assert engine.state.settings.cpu_share_percent == 75
    async with an_engine(tmp_path / "one") as again:
        await again.until(lambda: again.state.settings.cpu_share_percent == 75)


async def test_a_pause_has_an_end(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        a_hub(tmp_path / "hub", TIDES) as hub,
        an_engine(tmp_path / "one", clock=clock, hub_url=hub.url) as engine,
    ):
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        await engine.do(c.Pause(seconds=60))
        status = engine.state.status
        assert (status.state, status.resumes_at) == (RunState.PAUSED, clock.now() + 60)
        assert [reason.code for reason in status.reasons] == [ReasonCode.USER_PAUSED]
        await engine.until(lambda: engine.trainer.duty == 0.0)
        clock.advance(59)
        await engine.do(c.RefreshHub())
        assert engine.state.status.state is RunState.PAUSED
        clock.advance(2)
        await engine.until(lambda: engine.state.status.state is RunState.TRAINING)
        await engine.until(lambda: engine.trainer.duty > 0.0)
        await engine.do(c.Pause())
        assert engine.state.status.resumes_at is None
        clock.advance(1e6)
        await engine.until(lambda: engine.trainer.duty == 0.0)
        await engine.do(c.Resume())
        await engine.until(lambda: engine.trainer.duty > 0.0)


async def test_a_pause_and_an_override_outlive_the_engine(tmp_path: Path) -> None:
    clock = ManualClock()
    async with an_engine(tmp_path / "one", clock=clock) as engine:
        await engine.do(c.Pause())
    async with an_engine(tmp_path / "one", clock=clock) as again:
        await again.until(lambda: ReasonCode.USER_PAUSED in [row.code for row in again.state.governor.reasons])
        await again.do(c.Override(seconds=600))
        until = clock.now() + 600
    async with an_engine(tmp_path / "one", clock=clock) as third:
        await third.until(lambda: third.state.governor.override_until == until)
        assert third.state.governor.pause_until is None
    clock.advance(601)
    async with an_engine(tmp_path / "one", clock=clock) as fourth:
        await fourth.until(lambda: fourth.state.governor.reasons is not None and fourth.state.machine.cores_logical)
        assert fourth.state.governor.override_until is None


async def test_a_pause_that_could_not_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[bool] = []

    def save(folder: Path, memory: guest_memory.GuestMemory) -> bool:
        tries.append(memory.paused)
        return len(tries) > 2

    async with an_engine(tmp_path / "one") as engine:
        monkeypatch.setattr(guest_memory, "save", save)
        await engine.do(c.Pause())
        await engine.until(lambda: len(tries) > 2)
        assert tries[-1]


async def test_limits_that_this_computer_can_never_meet_are_refused(tmp_path: Path) -> None:
    async with an_engine(tmp_path / "one") as engine:
        engine.reader.machine = msgspec.structs.replace(
            engine.reader.machine, disk_total_bytes=500_000_000_000, memory_total_bytes=16_000_000_000
        )
        await engine.until(lambda: engine.state.machine.disk_total_bytes)
        before = engine.state.settings
        for changes in ({"disk_free_bytes": 10_000_000_000_000}, {"memory_free_bytes": 10**12}):
            with pytest.raises(ControlError) as caught:
                await engine.do(c.ChangeSettings(changes=dict(changes)))
            assert caught.value.code is ErrorCode.BAD_SETTING
        assert engine.state.settings == before


async def test_what_windows_use_is_not_another_programs_load(tmp_path: Path) -> None:
    async with an_engine(tmp_path / "one") as engine:
        engine.supervisor.on_faces((Face(1, "window", False, pid=4321), Face(2, "cli", False)))
        await engine.until(lambda: 4321 in engine.reader.owned)
        engine.supervisor.on_faces(())
        await engine.until(lambda: 4321 not in engine.reader.owned)


async def test_the_machine_decides_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        a_hub(tmp_path / "hub", TIDES) as hub,
        an_engine(tmp_path / "one", clock=clock, hub_url=hub.url) as engine,
    ):
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        calm = engine.reader.machine
        for changes, code in (
            ({"on_battery": True}, ReasonCode.ON_BATTERY),
            ({"idle_seconds": 1.0}, ReasonCode.USER_ACTIVE),
            ({"temperature_celsius": 99.0}, ReasonCode.TOO_HOT),
        ):
            engine.reader.machine = msgspec.structs.replace(calm, **changes)
            await engine.until(lambda code=code: code in [r.code for r in engine.state.status.reasons])
            await engine.until(lambda: engine.trainer.duty == 0.0)
        await engine.do(c.Resume())
        assert engine.state.status.state is RunState.PAUSED  # no button overrides heat
        engine.reader.machine = msgspec.structs.replace(calm, temperature_celsius=50.0)
        clock.advance(3600)  # what stopped it has to stay away for a while
        await engine.until(lambda: engine.state.status.state is RunState.TRAINING)
    async with (await open_store(engine.paths.store_file, 0.0)).store as store:
        periods = await store.periods_between(0.0, 1e12)
        seen = {reason.code for period in periods for reason in period.reasons}
        assert {ReasonCode.ON_BATTERY, ReasonCode.USER_ACTIVE, ReasonCode.TOO_HOT} <= seen


async def test_an_unattended_machine_does_not_mind_its_user(tmp_path: Path) -> None:
    async with an_engine(tmp_path / "one", hub_url="http://127.0.0.1:9", ignore_user_activity=True) as engine:
        await engine.until(lambda: engine.state.settings.hub_url)
        settings = engine.state.settings
        assert settings.pause_while_in_use is False
        assert (settings.foreign_cpu_percent, settings.cpu_share_in_use_percent) == (0, settings.cpu_share_percent)


async def test_samples_are_written_while_somebody_looks(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine, rounds=4))
        assert engine.state.session is not None
        assert engine.state.session.sample is None
        engine.supervisor.on_faces((Face(face_id=1, kind="window", wants_samples=True),))
        await engine.until(lambda: engine.state.session is not None and engine.state.session.sample)


async def test_the_worker_can_be_started_again(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        engine.trainer.give_up()
        await engine.until(lambda: engine.state.status.state is RunState.PROBLEM)
        problem = engine.problem(ProblemCode.WORKER_FAILED)
        assert problem is not None
        assert problem.action is ProblemAction.RESTART_WORKER
        await engine.do(c.RestartWorker())
        assert engine.problem(ProblemCode.WORKER_FAILED) is None
        await engine.until(lambda: engine.state.status.state is RunState.TRAINING)
        assert engine.trainer.started_again == 1


# The hub.


async def test_a_hub_that_is_away_is_told_and_mended_and_training_goes_on(tmp_path: Path) -> None:
    clock, port = ManualClock(), a_free_port()
    async with an_engine(tmp_path / "one", clock=clock, hub_url=f"http://127.0.0.1:{port}") as engine:
        async with a_hub(tmp_path / "hub", TIDES, port=port):
            await engine.do(c.Join(project="tides"))
            await engine.until(lambda: trains(engine) and engine.state.hub.connected)
        with pytest.raises(ControlError) as caught:
            await engine.do(c.RefreshHub())
        assert caught.value.code is ErrorCode.HUB_UNREACHABLE
        engine.supervisor._sync.wake()  # type: ignore[union-attr]
        await engine.until(lambda: not engine.state.hub.connected)
        assert engine.state.hub.detail
        assert engine.problem(ProblemCode.HUB_UNREACHABLE) is None  # not worth a card yet
        session = engine.state.session
        assert session is not None
        await engine.until(lambda: trains(engine, rounds=session.rounds_committed + 2))
        assert engine.state.status.state is RunState.TRAINING
        clock.advance(11)
        engine.supervisor._sync.wake()  # type: ignore[union-attr]
        await engine.until(lambda: engine.problem(ProblemCode.HUB_UNREACHABLE))
        problem = engine.problem(ProblemCode.HUB_UNREACHABLE)
        assert problem is not None
        assert (problem.action, problem.params["url"]) == (ProblemAction.RETRY_HUB, f"http://127.0.0.1:{port}")
        async with a_hub(tmp_path / "hub", TIDES, port=port):
            await engine.do(c.RefreshHub())
            await engine.until(lambda: engine.state.hub.connected)
            assert engine.problem(ProblemCode.HUB_UNREACHABLE) is None


async def test_something_that_is_no_hub_is_told_at_once(tmp_path: Path) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="<html>Welcome to the airport</html>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with an_engine(tmp_path / "one", hub_url=url) as engine:
            await engine.until(lambda: engine.problem(ProblemCode.HUB_NONSENSE))
            assert not engine.state.hub.connected
            async with a_hub(tmp_path / "hub", TIDES) as hub:
                await engine.do(c.ChangeSettings(changes={"hub_url": hub.url + "/"}))
                assert engine.problem(ProblemCode.HUB_NONSENSE) is None
                await engine.until(lambda: engine.state.hub.connected)
                assert engine.state.settings.hub_url == hub.url
                await engine.until(lambda: [card.name for card in engine.state.projects] == ["tides"])
    finally:
        await runner.cleanup()


async def test_a_listed_project_with_a_bad_signature_is_dropped_with_a_card(tmp_path: Path) -> None:
    bad = msgspec.structs.replace(TIDES, payload=TIDES.payload.replace(b'"Tides"', b'"Tidez"'))
    page: dict[str, Any] = {
        "projects": [
            {"signed_manifest": msgspec.to_builtins(entry), "peers_now": 1, "tokens_verified": 0}
            for entry in (bad, SONGS)
        ],
        "next": None,
    }
    body = msgspec.json.encode(page)

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/api/v1/projects":
            return web.Response(body=body, content_type="application/json")
        return web.json_response({"error": {"code": "not_found", "detail": "no"}}, status=404)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with an_engine(tmp_path / "one", hub_url=f"http://127.0.0.1:{runner.addresses[0][1]}") as engine:
            await engine.until(lambda: engine.problem(ProblemCode.MANIFEST_REFUSED))
            assert [card.name for card in engine.state.projects] == ["songs"]
            problem = engine.problem(ProblemCode.MANIFEST_REFUSED)
            assert problem is not None
            await engine.do(c.DismissProblem(problem_id=problem.problem_id))
            await engine.do(c.RefreshHub())
            assert engine.problem(ProblemCode.MANIFEST_REFUSED) is None  # the same one is not told again
    finally:
        await runner.cleanup()


async def test_a_name_reaches_the_hub_and_the_session(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        await engine.do(c.ChangeSettings(changes={"display_name": "Ada"}))
        store = engine.supervisor._store
        async with asyncio.timeout(10):
            while await store.name_sent(hub.url) != "Ada":
                engine.supervisor._sync.wake("name")  # type: ignore[union-attr]
        assert engine.sessions[0]._name == "Ada"


# The store.


async def test_a_store_that_cannot_be_written_is_told_and_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog
) -> None:
    expect_log("engine.store.service", match="cannot be written")
    full = False

    async with a_hub(tmp_path / "hub", TIDES) as hub:
        async with an_engine(tmp_path / "one", hub_url=hub.url) as engine:
            store = engine.supervisor._store
            transact = store._transact

            def transact_or_fail(work: Any) -> Any:
                if full:
                    raise StoreWriteError(store.path, "database or disk is full")
                return transact(work)

            monkeypatch.setattr(store, "_transact", transact_or_fail)
            await engine.do(c.Join(project="tides"))
            await engine.until(lambda: trains(engine))
            full = True
            await engine.until(lambda: engine.problem(ProblemCode.STORE_UNWRITABLE))
            problem = engine.problem(ProblemCode.STORE_UNWRITABLE)
            assert problem is not None
            assert problem.params["path"] == str(engine.paths.store_file)
            await engine.do(c.ChangeSettings(changes={"cpu_share_percent": 30}))
            session = engine.state.session
            assert session is not None
            await engine.until(lambda: trains(engine, rounds=session.rounds_committed + 2))
            assert engine.state.status.state is RunState.TRAINING
            full = False
            await engine.until(lambda: engine.problem(ProblemCode.STORE_UNWRITABLE) is None)
            assert store.held_writes == 0
        async with (await open_store(engine.paths.store_file, 0.0)).store as again:
            assert (await again.load_settings()).cpu_share_percent == 30
            rows = await again.recent_rounds(TIDES_ID, 1000)
            assert len([row for row in rows if row.committed]) == engine.sessions[0]._report.rounds_committed


# Cards.


async def test_no_keyring_is_told_until_it_is_dismissed_for_good(tmp_path: Path) -> None:
    loaded = LoadedIdentity(identity(1), IdentityStore.FILE, "There is no keyring here.")
    async with an_engine(tmp_path / "one", loaded=loaded, hub_url="http://127.0.0.1:9") as engine:
        problem = engine.problem(ProblemCode.NO_KEYRING)
        assert problem is not None
        await engine.do(c.DismissProblem(problem_id=problem.problem_id))
        await engine.do(c.DismissProblem(problem_id="no-such-card"))
        assert engine.problem(ProblemCode.NO_KEYRING) is None
    async with an_engine(tmp_path / "one", loaded=loaded, hub_url="http://127.0.0.1:9") as again:
        await again.until(lambda: again.state.settings.hub_url)
        assert again.problem(ProblemCode.NO_KEYRING) is None


async def test_two_engines_share_rounds_and_the_hub_credits_them(tmp_path: Path) -> None:
    """Receipts travel by the outbox; the board adds up to what was committed."""
    pair = signed("pair", minimum_peers=2, target_batch_samples=64)
    pair_id = open_signed(pair).project_id
    async with (
        a_hub(tmp_path / "hub", pair) as hub,
        an_engine(tmp_path / "one", 1, hub_url=hub.url) as one,
        an_engine(tmp_path / "two", 2, hub_url=hub.url) as two,
    ):
        two.links = one.links
        await asyncio.gather(one.do(c.Join(project="pair")), two.do(c.Join(project="pair")))
        await one.until(lambda: trains(one, pair_id, rounds=3))
        for engine in (one, two):
            engine.sessions[0].post(LeaveRequest("now"))
        committed: dict[str, int] = {}
        async with asyncio.timeout(20):
            while True:
                for engine in (one, two):
                    for row in await engine.do(c.GetRounds(limit=1000)):
                        if row["committed"]:
                            committed[row["round_id"]] = row["tokens"]
                board = await one.supervisor._sync.client.leaderboard(pair_id)  # type: ignore[union-attr]
                verified = sum(row.verified_tokens for row in board.rows)
                if verified == sum(committed.values()) and not any(row.pending_tokens for row in board.rows):
                    break
                for engine in (one, two):
                    engine.supervisor._sync.wake("receipts")  # type: ignore[union-attr]
        assert len(committed) >= 3
        assert {row.peer_id for row in board.rows} == {identity(1).peer_id, identity(2).peer_id}
