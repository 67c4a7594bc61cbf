import asyncio
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from engine.contract import commands as c
from engine.contract.reasons import ReasonCode, RunState
from engine.contract.snapshot import GpuReading, Status
from engine.governor.policy import RunLevel
from engine.runtime.guest import LINGER_SECONDS, local_time
from engine.runtime.power.news import PowerNews
from engine.runtime.session_events import LeaveRequest
from tests.helpers.toy_guest import Home, at_home
from tests.helpers.virtual_time import EPOCH, virtual_time


def codes(home: Home) -> list[str]:
    return [reason.code.value for reason in home.guest.decision.reasons]


def published(home: Home) -> Any:
    return home.publisher.state.governor


# Somebody comes back, and goes.


@virtual_time
async def test_a_touch_stops_the_session_at_once_and_the_setting_says_when_it_goes_on() -> None:
    async with at_home(away_after_seconds=120) as home:
        assert home.toy.limits.duty > 0.0
        assert home.watcher.armed
        home.computer.touch()
        await home.pass_time(0.001)
        touched = home.clock.now()
        assert home.toy.limits.duty == 0.0
        assert codes(home) == ["user_active"]
        assert published(home).level == "network_only"
        assert published(home).resumes_at == pytest.approx(touched + 120, abs=0.1)
        await home.pass_time(119.5)
        assert home.toy.limits.duty == 0.0
        await home.pass_time(0.7)
        assert home.toy.limits.duty > 0.0
        assert home.watcher.armed


@virtual_time
async def test_input_that_is_seen_only_by_reading_stops_too() -> None:
    async with at_home() as home:
        home.computer.last_input_at = home.clock.now()
        await home.pass_time(2.1)
        assert home.toy.limits.duty == 0.0


@virtual_time
async def test_nobody_listens_for_input_while_nothing_is_computed() -> None:
    async with at_home() as home:
        home.guest.obey(c.Pause())
        assert not home.watcher.armed
        home.guest.obey(c.Resume())
        assert home.watcher.armed
        home.joined = None
        home.guest.consider()
        assert not home.watcher.armed


@virtual_time
async def test_where_use_does_not_stop_it_the_share_goes_down_and_the_fast_cores_are_left() -> None:
    async with at_home(pause_while_in_use=False, cpu_share_percent=100, cpu_share_in_use_percent=25) as home:
        assert (home.toy.limits.threads, home.toy.limits.gentle) == (4, False)
        home.computer.touch()
        await home.pass_time(0.01)
        assert (home.toy.limits.threads, home.toy.limits.duty, home.toy.limits.gentle) == (1, 1.0, True)


@virtual_time
async def test_the_computer_is_read_less_often_while_nothing_is_computed() -> None:
    async with at_home() as home:
        before = home.computer.reads
        await home.pass_time(60.0)
        busy = home.computer.reads - before
        home.guest.obey(c.Pause())
        before = home.computer.reads
        await home.pass_time(60.0)
        assert home.computer.reads - before < busy / 2


# The user's word.


@virtual_time
async def test_a_snooze_ends_by_itself() -> None:
    async with at_home() as home:
        home.guest.obey(c.Pause(seconds=1800))
        assert published(home).pause_until == pytest.approx(home.clock.now() + 1800)
        await home.pass_time(1803)
        assert published(home).pause_until is None
        assert home.toy.limits.duty > 0.0


@virtual_time
async def test_an_override_works_in_spite_of_the_user_and_ends() -> None:
    async with at_home() as home:
        home.computer.touch()
        await home.pass_time(1.0)
        home.guest.obey(c.Override(seconds=600))
        assert home.toy.limits.duty > 0.0
        assert [reason.code for reason in published(home).overridden] == [ReasonCode.USER_ACTIVE]
        assert not home.watcher.armed
        home.computer.touch()
        await home.pass_time(599.5)
        assert home.toy.limits.duty > 0.0
        home.computer.touch()
        await home.pass_time(3.0)
        assert home.toy.limits.duty == 0.0
        assert published(home).override_until is None


@virtual_time
async def test_an_override_ends_a_pause_and_a_pause_an_override() -> None:
    async with at_home() as home:
        home.guest.obey(c.Pause())
        home.guest.obey(c.Override(seconds=600))
        assert home.toy.limits.duty > 0.0
        home.guest.obey(c.Pause())
        assert codes(home) == ["user_paused"]
        assert published(home).override_until is None
        home.guest.obey(c.Resume())
        home.guest.obey(c.Override(seconds=600))
        home.guest.obey(c.CancelOverride())
        assert published(home).override_until is None


@virtual_time
async def test_no_override_works_on_battery() -> None:
    async with at_home() as home:
        home.computer.machine = msgspec.structs.replace(home.computer.machine, on_battery=True)
        await home.pass_time(2.1)
        home.guest.obey(c.Override(seconds=600))
        assert home.toy.limits.duty == 0.0
        assert codes(home) == ["on_battery"]


@virtual_time
async def test_settings_take_effect_at_once() -> None:
    async with at_home() as home:
        home.change(cpu_share_percent=25, exclusive_apps=("game",))
        assert (home.toy.limits.threads, home.toy.limits.duty) == (1, 1.0)
        assert home.computer.apps == ("game",)


# Links.


@virtual_time
async def test_a_stop_that_is_not_about_the_line_keeps_the_links_for_a_while() -> None:
    async with at_home() as home:
        home.guest.obey(c.Pause())
        await home.pass_time(LINGER_SECONDS - 6.0)
        assert home.done == []
        await home.pass_time(12.0)
        assert home.done == ["held after_round"]
        home.guest.obey(c.Resume())
        await home.pass_time(0.1)
        assert home.done == ["held after_round", "let"]
        assert home.guest.lets_sessions


@virtual_time
async def test_a_metered_network_is_left_after_the_round() -> None:
    async with at_home() as home:
        home.computer.machine = msgspec.structs.replace(home.computer.machine, metered=True)
        await home.pass_time(2.1)
        assert home.done == ["held after_round"]
        assert not home.guest.lets_sessions


@virtual_time
async def test_a_used_up_data_limit_ends_the_links() -> None:
    async with at_home(data_cap_bytes=1_000_000_000) as home:
        home.records.bytes = {"2025-10-09": 2_000_000_000}
        await home.pass_time(70.0)
        assert codes(home) == ["data_cap"]
        assert published(home).data_used_bytes == 2_000_000_000
        assert home.done == ["told data_cap_near", "held after_round"]


@virtual_time
async def test_most_of_the_data_limit_used_is_told_once() -> None:
    async with at_home(data_cap_bytes=1_000_000_000) as home:
        home.records.bytes = {"2025-10-09": 850_000_000}
        await home.pass_time(200.0)
        assert home.done == ["told data_cap_near"]
        home.change(data_cap_bytes=10_000_000_000)
        await home.pass_time(70.0)
        assert home.done == ["told data_cap_near", "mended data_cap_near"]


@virtual_time
async def test_while_the_user_is_there_the_links_stay() -> None:
    async with at_home(away_after_seconds=3600) as home:
        home.computer.touch()
        await home.pass_time(1800.0)
        assert home.done == []


# The system.


@virtual_time
async def test_before_sleep_it_leaves_and_saves_and_after_it_begins_again() -> None:
    async with at_home() as home:
        home.saved.clear()
        telling = asyncio.create_task(home.guest.on_news(PowerNews.SLEEP))
        await home.pass_time(0.1)
        assert home.toy.limits.duty == 0.0
        assert LeaveRequest("now") in home.toy.posted
        assert home.done == ["held now"]
        assert not telling.done()
        home.saved.set()
        await telling
        assert home.done == ["held now", "saved"]
        assert codes(home) == ["system_sleeps"]
        await home.guest.on_news(PowerNews.AWAKE)
        assert home.done == ["held now", "saved", "let"]
        await home.pass_time(2.1)
        assert home.toy.limits.duty > 0.0


@virtual_time
async def test_before_the_computer_ends_it_saves_and_ends_itself() -> None:
    async with at_home() as home:
        await home.guest.on_news(PowerNews.END)
        assert home.done == ["held now", "saved", "stopped"]


@virtual_time
async def test_after_a_sleep_that_nobody_announced_the_links_are_made_anew() -> None:
    async with at_home() as home:
        await home.pass_time(10.0)
        asleep_at = home.clock.now()
        home.clock.slept += 3600.0
        await home.pass_time(2.1)
        assert home.done == ["held now", "let"]
        rows = [(level, reasons) for level, reasons, at in home.records.periods if at >= asleep_at - 2.1]
        assert ("stopped", ("system_sleeps",)) in rows
        assert home.records.periods[-1][0] == "full"


@virtual_time
async def test_an_announced_sleep_without_an_announced_waking_ends_all_the_same() -> None:
    async with at_home() as home:
        await home.guest.on_news(PowerNews.SLEEP)
        home.clock.slept += 3600.0
        await home.pass_time(5.1)
        assert home.done == ["held now", "saved", "let"]
        assert home.toy.limits.duty > 0.0


# Staying awake.


@virtual_time
async def test_no_lock_is_held_unless_asked() -> None:
    async with at_home() as home:
        await home.pass_time(300.0)
        home.guest.obey(c.Pause())
        home.guest.obey(c.Resume())
        await home.pass_time(300.0)
    assert home.lock.asked == 0


@virtual_time
async def test_a_lock_is_held_only_while_it_trains_and_shown() -> None:
    async with at_home(keep_awake=True) as home:
        await home.pass_time(2.1)
        assert home.lock.held == 1
        assert published(home).keep_awake == "granted"
        home.guest.obey(c.Pause())
        await home.pass_time(0.1)
        assert home.lock.held == 0
        assert published(home).keep_awake == ""
        home.guest.obey(c.Resume())
        await home.pass_time(0.1)
        assert home.lock.held == 1
    assert home.lock.held == 0


@virtual_time
async def test_a_lock_that_was_not_granted_is_shown() -> None:
    async with at_home() as home:
        home.lock.answer = "logind: not allowed here"
        home.change(keep_awake=True)
        await home.pass_time(2.1)
        assert published(home).keep_awake == "logind: not allowed here"


# Graphics processors.


@virtual_time
async def test_a_graphics_processor_is_left_on_input_and_not_asked_meanwhile() -> None:
    async with at_home(pause_while_in_use=False) as home:
        home.toy.gpu = None
        home.computer.machine = msgspec.structs.replace(home.computer.machine, gpus=(GpuReading(name="card"),))
        await home.pass_time(2.1)
        assert home.toy.limits.gpu_duty == 1.0
        home.computer.touch()
        await home.pass_time(0.01)
        assert home.toy.limits.gpu_duty == 0.0
        assert home.toy.limits.duty > 0.0
        assert "gpu_in_use" in codes(home)
        assert home.computer.uses[-1][1] is False


@virtual_time
async def test_no_graphics_processor_is_asked_while_paused() -> None:
    async with at_home() as home:
        home.toy.gpu = True
        home.computer.machine = msgspec.structs.replace(home.computer.machine, gpus=(GpuReading(name="card"),))
        await home.pass_time(2.1)
        assert home.computer.uses[-1][1] is True
        home.guest.obey(c.Pause())
        home.computer.uses.clear()
        await home.pass_time(30.0)
        assert {working for _, working in home.computer.uses} == {False}


@virtual_time
async def test_one_that_the_worker_cannot_use_gives_no_reasons() -> None:
    async with at_home(pause_while_in_use=False, cpu_share_percent=25) as home:
        home.computer.machine = msgspec.structs.replace(home.computer.machine, gpus=(GpuReading(name="card"),))
        home.computer.touch()
        await home.pass_time(2.1)
        assert home.guest.decision.level is RunLevel.FULL
        assert home.toy.limits.gpu_duty == 0.0


# The record.


@virtual_time
async def test_every_change_is_noted_and_every_minute() -> None:
    async with at_home() as home:
        await home.pass_time(200.0)
        home.guest.obey(c.Pause())
        await home.pass_time(200.0)
        levels = [(level, reasons) for level, reasons, _ in home.records.periods]
        assert set(levels) == {("stopped", ("start_delay",)), ("full", ()), ("stopped", ("user_paused",))}
        assert levels.count(("full", ())) >= 3
        moments = [at for _, _, at in home.records.periods]
        assert max(later - sooner for sooner, later in pairwise(moments)) <= 61.0


@virtual_time
async def test_waiting_for_others_is_not_training() -> None:
    async with at_home() as home:
        waiting = Status(state=RunState.WAITING, reasons=(), since=0.0)
        home.publisher.update(status=waiting)
        home.guest.consider()
        await home.pass_time(0.1)
        assert home.records.periods[-1][0] == "network_only"


@virtual_time
async def test_a_reading_is_kept_each_minute() -> None:
    async with at_home() as home:
        await home.pass_time(185.0)
        assert [reading.level for reading in home.records.readings] == ["full"] * 3
        assert home.records.readings[0].temperature_celsius == 50.0
        assert home.records.readings[0].in_use is False


def test_the_clock_on_the_wall() -> None:
    local = local_time(EPOCH)
    assert 0 <= local.weekday <= 6
    assert (local.minute, local.second) == (53, 20)
