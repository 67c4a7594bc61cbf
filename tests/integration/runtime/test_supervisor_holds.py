"""The engine with real store and hub: a project that the limits let go for a while stays joined."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from engine.contract import commands as c
from engine.contract.reasons import ReasonCode, RunState
from engine.manifest.verify import open_signed
from tests.helpers.run_engine import Engine, a_hub, an_engine, signed

pytestmark = pytest.mark.integration

TIDES = signed("tides")
TIDES_ID = open_signed(TIDES).project_id


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone computer that stopped in the middle of a batch has nobody to finish it."""
    monkeypatch.setattr("engine.runtime.session.LEAVE_SECONDS", 0.2)


def trains(engine: Engine) -> bool:
    session = engine.state.session
    return session is not None and session.rounds_committed >= 1


def reads(engine: Engine, **values: bool) -> None:
    engine.reader.machine = msgspec.structs.replace(engine.reader.machine, **values)


def codes(engine: Engine) -> list[ReasonCode]:
    return [reason.code for reason in engine.state.status.reasons]


@pytest.mark.usefixtures("soon")
async def test_a_metered_network_ends_the_session_and_its_end_begins_another(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        reads(engine, metered=True)
        await engine.until(lambda: engine.state.session is None and engine.trainer.closed)
        assert ReasonCode.METERED in codes(engine)
        assert engine.state.status.state is RunState.PAUSED
        assert [card.joined for card in engine.state.projects] == [True]
        await engine.do(c.ChangeSettings(changes={"pause_on_metered": False}))
        await engine.until(lambda: trains(engine))
        assert len(engine.sessions) == 2


@pytest.mark.usefixtures("soon")
async def test_a_project_that_is_left_while_held_does_not_come_back(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: trains(engine))
        reads(engine, metered=True)
        await engine.until(lambda: engine.state.session is None and engine.trainer.closed)
        await engine.do(c.Leave(when="after_round"))
        assert engine.state.status.state is RunState.IDLE
        await engine.do(c.ChangeSettings(changes={"pause_on_metered": False}))
        await engine.until(lambda: ReasonCode.METERED not in [row.code for row in engine.state.governor.reasons])
        assert (len(engine.sessions), engine.state.status.state) == (1, RunState.IDLE)


async def test_leaving_overtakes_a_hold_that_waits_for_its_round(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        await engine.do(c.Join(project="tides"))
        await engine.until(lambda: engine.state.session is not None and engine.state.session.my_samples > 0)
        engine.trainer.most_samples = 0  # no round will come
        reads(engine, metered=True)
        await engine.until(lambda: ReasonCode.METERED in codes(engine))
        await engine.do(c.Leave(when="now"))
        assert engine.state.status.state is RunState.IDLE
        assert not any(card.joined for card in engine.state.projects)
        reads(engine, metered=False)
        await engine.until(lambda: engine.state.machine.metered is False)
        assert len(engine.sessions) == 1


async def test_joining_while_the_network_is_not_to_be_used_begins_when_it_is(tmp_path: Path) -> None:
    async with a_hub(tmp_path / "hub", TIDES) as hub, an_engine(tmp_path / "one", hub_url=hub.url) as engine:
        reads(engine, metered=True)
        await engine.until(lambda: engine.state.machine.metered is True)
        await engine.until(lambda: [row.code for row in engine.state.governor.reasons] == [ReasonCode.METERED])
        async with asyncio.timeout(10):
            await engine.do(c.Join(project="tides"))
        assert engine.sessions == []
        assert [card.joined for card in engine.state.projects] == [True]
        await engine.do(c.ChangeSettings(changes={"pause_on_metered": False}))
        await engine.until(lambda: trains(engine))
