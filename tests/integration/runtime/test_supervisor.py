"""The engine as a whole, below its control link: a real store and a real hub on loopback, toy trainers."""

import asyncio
import socket
from pathlib import Path

import aiohttp
import msgspec
import pytest

from engine.contract import commands as c
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.links import JoinLink, build_link
from engine.contract.reasons import ProblemAction, ProblemCode, ReasonCode, RunState
from engine.core.errors import UserError
from engine.hub.client import HubClient
from engine.manifest.verify import open_signed
from engine.store.rows import JoinedProject
from engine.store.service import open_store
from tests.helpers.guards import ExpectLog
from tests.helpers.run_engine import Engine, a_hub, an_engine, signed
from tests.helpers.run_session import PUBLISHER

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


# Joining and leaving.


@pytest.mark.parametrize("by", ["name", "id", "link"])
async def test_joining(tmp_path: Path, by: str) -> None:
    async with a_hub(tmp_path / "hub", TIDES, SONGS) as hub:
        elsewhere = f"http://127.0.0.1:{a_free_port()}" if by == "link" else hub.url
        async with an_engine(tmp_path / "one", hub_url=elsewhere) as engine:
            command: c.Command = c.Join(project={"name": "tides", "id": TIDES_ID, "link": ""}[by])
            if by == "link":
                command = c.OpenLink(link=build_link(JoinLink(hub=hub.url, project=TIDES_ID)))
            assert await engine.do(command) == {"project_id": TIDES_ID}
            await engine.until(lambda: trains(engine))
            assert engine.state.status.state is RunState.TRAINING
            assert engine.state.settings.hub_url == hub.url
            await engine.until(lambda: [card.name for card in engine.state.projects if card.joined] == ["tides"])
            assert await engine.do(command) == {"project_id": TIDES_ID}
            assert len(engine.sessions) == 1
            await engine.until(lambda: engine.state.leaderboard.project_id == TIDES_ID)


async def test_what_cannot_be_joined(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        for command, code in (
            (c.Join(project="birds"), ErrorCode.UNKNOWN_PROJECT),
            (c.OpenLink(link="http://example.org"), ErrorCode.BAD_LINK),
            (c.OpenLink(link=build_link(JoinLink(hub=hub.url, project="ab" * 32))), ErrorCode.UNKNOWN_PROJECT),
            (c.GetRounds(limit=5), ErrorCode.NO_PROJECT),
            (c.RestartWorker(), ErrorCode.NO_PROJECT),
        ):
            with pytest.raises(ControlError) as caught:
                await engine.do(command)
            assert caught.value.code is code
        assert engine.state.status.state is RunState.IDLE
        await engine.do(c.Leave(when="now"))


async def test_a_project_that_is_too_large_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        engine.reader.machine = msgspec.structs.replace(engine.reader.machine, memory_total_bytes=1_000_000)
        await engine.until(lambda: engine.state.machine.memory_total_bytes == 1_000_000)
        await engine.do(c.RefreshHub())
        with pytest.raises(ControlError) as caught:
            await engine.do(c.Join(project="tides"))
        assert caught.value.code is ErrorCode.PROJECT_UNUSABLE
        assert "GB of memory" in str(caught.value.params["detail"])


async def test_another_join_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES, SONGS) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        await engine.do(c.Join(project="songs"))
        assert engine.trainers[0].closed
        await engine.until(lambda: trains(engine, SONGS_ID))
        await engine.until(lambda: engine.state.leaderboard.project_id == SONGS_ID)
        rounds = await engine.do(c.GetRounds(limit=100))
        assert {row["project_id"] for row in rounds} <= {SONGS_ID}
        assert all(point.global_step <= 50 for point in engine.state.curve)


async def test_joins_at_the_same_time_end_with_one_session(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES, SONGS) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.RefreshHub())
        await asyncio.gather(*(engine.do(c.Join(project=name)) for name in ("tides", "songs", "tides", "songs")))
        await engine.until(lambda: engine.state.session is not None)
        running = [trainer for trainer in engine.trainers if not trainer.closed]
        assert len(running) == 1


async def test_leaving_forgets_the_project(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub:
        async with an_engine(tmp_path / "one", hub_url=hub.url) as engine:
            await engine.do(c.Join(project="tides"))
            await engine.until(lambda: trains(engine))
            await engine.do(c.Leave(when="after_round"))
            assert engine.state.status.state is RunState.IDLE
            assert (engine.state.session, engine.state.curve, engine.state.leaderboard.project_id) == (None, (), "")
            assert not any(card.joined for card in engine.state.projects)
            assert engine.trainer.closed
        async with an_engine(tmp_path / "one") as again:
            await again.until(lambda: again.state.hub.connected)
            assert again.state.status.state is RunState.IDLE
            assert again.sessions == []


async def test_a_second_word_hastens_a_leave(tmp_path: Path) -> None:
    """Paused with work done and nobody to share it: a polite leave would wait."""
    async with (
        a_hub(tmp_path / "hub", signed("tides", target_batch_samples=4096)) as hub,
        an_engine(tmp_path / "one", hub_url=hub.url) as engine,
    ):
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: engine.state.session is not None and engine.state.session.my_samples > 0)
        engine.trainer.most_samples = 0
        polite = asyncio.create_task(engine.do(c.Leave(when="after_round")))
        await engine.until(lambda: engine.state.status.state is RunState.LEAVING)
        assert [reason.code for reason in engine.state.status.reasons] == [ReasonCode.LEAVING_AFTER_ROUND]
        hasty = asyncio.create_task(engine.do(c.Leave(when="now")))
        await engine.until(lambda: [row.code for row in engine.state.status.reasons] == [ReasonCode.LEAVING_NOW])
        await hasty
        await polite
        assert engine.state.status.state is RunState.IDLE


async def test_a_session_that_fails_while_it_is_left_is_left(tmp_path: Path, expect_log: ExpectLog) -> None:
    expect_log("engine.runtime.session_keeper", level=40, match="session failed")
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))

        async def broken() -> None:
            raise ArithmeticError("a fault of ours")

        engine.sessions[0]._parts.model.save = broken  # type: ignore[method-assign]
        await engine.do(c.Leave(when="now"))
        assert engine.state.status.state is RunState.IDLE
        assert len(engine.sessions) == 1
        assert engine.problem(ProblemCode.INTERNAL) is not None


# Life.


async def test_a_restart_goes_on_with_the_joined_project(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub:
        async with an_engine(tmp_path / "one", hub_url=hub.url) as engine:
            await engine.do(c.Join(project="tides"))
            await engine.until(lambda: trains(engine, rounds=3))
        stopped_at = engine.sessions[0]._parts.model.global_step
        assert engine.trainer.closed
        assert engine.reader.closed
        async with an_engine(tmp_path / "one") as again:
            await again.until(lambda: trains(again))
            assert again.state.session is not None
            assert again.state.session.global_step > stopped_at
            assert again.state.settings.hub_url == hub.url
            assert [point.global_step for point in again.state.curve][:3] == [1, 2, 3]
            assert again.state.today.rounds >= stopped_at


async def test_what_happened_is_in_the_store_when_it_has_stopped(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub:
        async with an_engine(tmp_path / "one", hub_url=hub.url) as engine:
            await engine.do(c.Join(project="tides"))
            await engine.until(lambda: trains(engine, rounds=3))
            assert [row["global_step"] for row in (await engine.do(c.GetRounds(limit=100)))][-3:] == [3, 2, 1]
        last = engine.sessions[0]._report
        async with (await open_store(engine.paths.store_file, 0.0)).store as store:
            rows = await store.recent_rounds(TIDES_ID, 1000)
            assert len([row for row in rows if row.committed]) == last.rounds_committed
            assert sum(row.my_tokens for row in rows) == last.my_tokens_committed
            ((_, day),) = await store.recent_days()
            assert (day.rounds, day.tokens_accepted) == (last.rounds_committed, last.my_tokens_committed)
            assert day.tokens_trained >= day.tokens_accepted
            periods = await store.periods_between(0.0, 1e12)
            assert periods
            assert not any(period.open for period in periods)


async def test_what_is_noted_while_the_engine_closes_is_let_go(tmp_path: Path) -> None:
    begun, written = asyncio.Event(), []

    async def late() -> None:
        written.append("late")

    async with an_engine(tmp_path / "one", hub_url="http://127.0.0.1:9") as engine:

        async def last() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                engine.supervisor.keep_soon("late", late())

        engine.supervisor.keep_soon("last", last())
        await begun.wait()
    assert not written


async def test_stopping_twice_and_before_anything_began(tmp_path: Path) -> None:
    async with an_engine(tmp_path / "one", hub_url="http://127.0.0.1:9") as engine:
        engine.supervisor.stop()
        await engine.do(c.StopEngine())
    with pytest.raises(UserError):
        async with an_engine(tmp_path / "two", hub_url="ftp://nonsense"):
            raise UserError("the engine ended by itself, and its error comes at the end")


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (OSError(28, "No space left on device"), ProblemCode.FOLDER_DISK_FULL, ReasonCode.DISK_FULL),
        (NotADirectoryError(20, "Not a directory"), ProblemCode.FOLDER_UNUSABLE, ReasonCode.STORE_UNWRITABLE),
        (UserError("It cannot be read."), ProblemCode.FOLDER_UNUSABLE, ReasonCode.STORE_UNWRITABLE),
    ],
)
async def test_a_folder_that_cannot_be_used_is_told_and_tried_again(
    tmp_path: Path, error: Exception, code: ProblemCode, reason: ReasonCode
) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        engine.fail_next = [error, error]
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: engine.problem(code))
        problem = engine.problem(code)
        assert problem is not None
        assert problem.params["path"] == str(engine.paths.project_dir(TIDES_ID))
        assert "Errno" not in str(problem.params)
        await engine.until(lambda: [row.code for row in engine.state.status.reasons] == [reason])
        assert engine.state.status.state is RunState.WAITING
        await engine.until(lambda: trains(engine))
        assert engine.problem(code) is None


async def test_leaving_takes_the_card_of_an_unusable_folder_away(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        engine.fail_next = [OSError(28, "No space left on device")] * 1000
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: engine.problem(ProblemCode.FOLDER_DISK_FULL))
        await engine.do(c.Leave(when="now"))
        assert engine.problem(ProblemCode.FOLDER_DISK_FULL) is None
        assert engine.state.status.state is RunState.IDLE


@pytest.mark.parametrize("fault", ["nobody", "no such project", "too large"])
async def test_a_link_that_cannot_be_followed_changes_nothing(tmp_path: Path, fault: str) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, a_hub(tmp_path / "other", SONGS) as other:
        async with an_engine(tmp_path / "one", hub_url=hub.url) as engine:
            await engine.do(c.Join(project="tides"))
            await engine.until(lambda: trains(engine))
            link = JoinLink(hub=other.url, project=SONGS_ID)
            wanted = ErrorCode.PROJECT_UNUSABLE
            if fault == "nobody":
                link, wanted = (
                    JoinLink(hub=f"http://127.0.0.1:{a_free_port()}", project=SONGS_ID),
                    ErrorCode.HUB_UNREACHABLE,
                )
            elif fault == "no such project":
                link, wanted = JoinLink(hub=other.url, project="ab" * 32), ErrorCode.UNKNOWN_PROJECT
            else:
                engine.reader.machine = msgspec.structs.replace(engine.reader.machine, memory_total_bytes=1_000_000)
                await engine.until(lambda: engine.state.machine.memory_total_bytes == 1_000_000)
            with pytest.raises(ControlError) as caught:
                await engine.do(c.OpenLink(link=build_link(link)))
            assert caught.value.code is wanted
            assert engine.state.settings.hub_url == hub.url
            assert [card.name for card in engine.state.projects if card.joined] == ["tides"]
            assert len(engine.sessions) == 1
        async with an_engine(tmp_path / "one") as again:
            await again.until(lambda: trains(again))
            assert again.state.settings.hub_url == hub.url


async def test_joining_again_takes_the_card_of_replaced_records_away(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        engine.supervisor.on_problem(
            ProblemCode.STORE_REPLACED, ProblemAction.DISMISS, {"path": "/a", "backup_path": "/b"}
        )
        assert engine.problem(ProblemCode.STORE_REPLACED) is not None
        await engine.do(c.Join(project="tides"))
        assert engine.problem(ProblemCode.STORE_REPLACED) is None


async def test_a_fault_of_ours_in_a_session_ends_only_that(tmp_path: Path, expect_log: ExpectLog) -> None:
    expect_log("engine.runtime.session_keeper", level=40, match="session failed")
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        engine.fail_next = [ZeroDivisionError("oops")]
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        problem = engine.problem(ProblemCode.INTERNAL)
        assert problem is not None
        assert problem.params["report_id"]
        assert "oops" not in str(problem.params)
        await engine.do(c.DismissProblem(problem_id=problem.problem_id))
        assert engine.problem(ProblemCode.INTERNAL) is None


async def test_a_stored_manifest_that_was_tampered_with_is_refused_with_a_card(tmp_path: Path) -> None:
    bad = msgspec.structs.replace(TIDES, payload=TIDES.payload.replace(b'"Tides"', b'"Tidez"'))
    (tmp_path / "one").mkdir()
    async with (await open_store(tmp_path / "one" / "potluck.db", 0.0)).store as store:
        await store.join_project(
            JoinedProject(project_id=TIDES_ID, hub_url="http://127.0.0.1:9", signed=bad, joined_at=1.0)
        )
    async with an_engine(tmp_path / "one", hub_url="http://127.0.0.1:9") as engine:
        await engine.until(lambda: engine.problem(ProblemCode.MANIFEST_REFUSED))
        assert engine.sessions == []
        await engine.until(lambda: engine.state.status.state is RunState.IDLE)


async def test_the_project_given_at_the_start_is_joined_once_the_hub_is_there(tmp_path: Path) -> None:
    port = a_free_port()
    async with an_engine(tmp_path / "one", hub_url=f"http://127.0.0.1:{port}", join="tides", name="Ada") as engine:
        await engine.until(lambda: engine.state.hub.detail)
        assert engine.state.session is None
        assert engine.state.hub.detail == f"nobody answers at 127.0.0.1, port {port}"
        (reason,) = engine.state.status.reasons
        assert (engine.state.status.state, reason.code) == (RunState.WAITING, ReasonCode.WAITING_TO_JOIN)
        assert reason.params == {"project": "tides", "url": f"http://127.0.0.1:{port}"}
        async with a_hub(tmp_path / "hub", TIDES, port=port) as hub:
            await engine.until(lambda: trains(engine))
            assert engine.state.settings.display_name == "Ada"
            await engine.until(lambda: engine.state.hub.connected)
            async with aiohttp.ClientSession() as http:
                board = await HubClient(hub.url, PUBLISHER, http).leaderboard(TIDES_ID)
            assert board is not None
