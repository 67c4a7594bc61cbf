"""The meter of this computer's speed, and what strangers' words become on the way to a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tasks import TaskOwner
from engine.runtime.peers import PeerTable
from engine.runtime.report import RATE_SMOOTHING, SpeedMeter, peer_rows
from engine.training.protocol import Accumulated
from engine.transport.base import Lane, LinkUp, PathKind, Received
from engine.transport.memory import MemoryHub
from engine.wire.codec import encode
from engine.wire.messages import PROTOCOL_VERSION, PeerHello, Progress
from tests.helpers.virtual_time import virtual_time


def totals(samples: int, tokens: int | None = None) -> Accumulated:
    tokens = samples * 32 if tokens is None else tokens
    return Accumulated(global_step=0, samples=samples, tokens=tokens, loss_sum=0.0, busy_seconds=0.0)


def test_nothing_is_said_before_two_reports() -> None:
    meter = SpeedMeter()
    meter.on_accumulated(totals(4), 10.0)
    assert meter.samples_per_second is None
    meter.on_accumulated(totals(8), 12.0)
    assert (meter.samples_per_second, meter.tokens_per_second) == (2.0, 64.0)


def test_a_new_pace_is_taken_over_smoothly() -> None:
    meter = SpeedMeter()
    for index in range(3):
        meter.on_accumulated(totals(10 * index), float(index))
    meter.on_accumulated(totals(50), 3.0)
    assert meter.samples_per_second == pytest.approx(10.0 + RATE_SMOOTHING * 20.0)


def test_time_without_training_does_not_count() -> None:
    meter = SpeedMeter()
    meter.on_accumulated(totals(0), 0.0)
    meter.on_accumulated(totals(10), 1.0)
    meter.restart()
    meter.on_accumulated(totals(14), 1000.0)
    assert meter.samples_per_second == 10.0
    meter.on_accumulated(totals(24), 1001.0)
    assert meter.samples_per_second == 10.0


def test_counters_that_begin_anew_and_a_clock_that_stands_still_are_no_speed() -> None:
    meter = SpeedMeter()
    meter.on_accumulated(totals(100), 0.0)
    meter.on_accumulated(totals(4), 1.0)
    assert meter.samples_per_second is None
    meter.on_accumulated(totals(8), 1.0)
    assert meter.samples_per_second is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 1e6)), max_size=30))
def test_it_is_never_negative_nor_infinite(reports: list[tuple[int, float]]) -> None:
    meter = SpeedMeter()
    for samples, at in reports:
        meter.on_accumulated(totals(samples), at)
    assert meter.samples_per_second is None or 0.0 < meter.samples_per_second < 1e308


@virtual_time
async def test_a_strangers_name_cannot_steer_a_terminal() -> None:
    hub = MemoryHub()
    one, other = hub.network("a" * 52), hub.network("b" * 52)
    await one.start()
    await other.start()
    async with TaskOwner("test") as tasks:
        table = PeerTable(one, bytes(32), "test", tasks)
        table.on_link_up(LinkUp("b" * 52, PathKind.MEMORY), 0.0)
        hello = PeerHello(protocol_version=PROTOCOL_VERSION, manifest_hash=bytes(32), software="x")
        await table.on_received(Received("b" * 52, Lane.CONTROL, encode(hello)), 0.0)
        said = Progress(
            sequence=1,
            global_step=3,
            weights_hash=bytes(32),
            samples=0,
            samples_per_second=1.0,
            upload_bytes_per_second=0.0,
            download_bytes_per_second=0.0,
            training=True,
            name="Ada\x1b[2J\r\n\u202eevil",
        )
        (row,) = peer_rows(one, table, {"b" * 52: said})
        assert row.name == "Ada[2Jevil"
        assert (row.global_step, row.path) == (3, "memory")
        (unknown,) = peer_rows(one, table, {})
        assert (unknown.name, unknown.global_step) == ("", None)
    await one.close()
    await other.close()
