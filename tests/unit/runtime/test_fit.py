import pytest

from engine.contract.snapshot import DeviceSpeed, Measurement, PeerInfo, SessionState, Settings
from engine.runtime.fit import tokens_per_hour
from engine.runtime.line_meter import LineMeter
from engine.runtime.power.gap import GapWatch

SETTINGS = Settings(cpu_share_percent=50)


def measured(*speeds: DeviceSpeed, state: str = "done") -> Measurement:
    return Measurement(state=state, devices=speeds)


def test_the_processors_part_is_what_its_share_leaves() -> None:
    speed = DeviceSpeed(device="cpu", tokens_per_second=1000.0)
    assert tokens_per_hour(measured(speed), 10, 20, SETTINGS) == pytest.approx(1000 * 0.5 * 3600 / 2)


def test_the_fastest_device_counts() -> None:
    speeds = DeviceSpeed(device="cpu", tokens_per_second=1000.0), DeviceSpeed(device="cuda:0", tokens_per_second=900.0)
    assert tokens_per_hour(measured(*speeds), 10, 10, SETTINGS) == pytest.approx(900 * 3600)


def test_what_was_not_measured_is_not_guessed() -> None:
    assert tokens_per_hour(Measurement(), 10, 10, SETTINGS) is None
    assert tokens_per_hour(measured(DeviceSpeed(device="cuda:0", detail="out of memory")), 10, 10, SETTINGS) is None
    running = measured(DeviceSpeed(device="cpu", tokens_per_second=1.0), state="running")
    assert tokens_per_hour(running, 10, 10, SETTINGS) is None


def session(**counts: tuple[int, int]) -> SessionState:
    peers = tuple(
        PeerInfo(peer_id=name, name="", connected=True, path="lan", bytes_sent=sent, bytes_received=received)
        for name, (sent, received) in counts.items()
    )
    return SessionState(project_id="p", title="P", peers=peers)


def test_the_line_is_as_fast_as_it_was_seen() -> None:
    meter = LineMeter()
    meter.note(session(a=(0, 0)), 10.0)
    meter.note(session(a=(1_000_000, 0), b=(5_000_000, 0)), 10.5)  # what a new link brings along is not of this span
    meter.note(session(a=(2_000_000, 400_000), b=(6_000_000, 0)), 12.0)
    assert meter.upload_bytes_per_second == pytest.approx(3_000_000 / 2)
    assert meter.download_bytes_per_second == pytest.approx(200_000)
    meter.note(session(a=(2_100_000, 400_000)), 14.0)
    assert meter.upload_bytes_per_second == pytest.approx(1_500_000)


def test_little_traffic_says_nothing() -> None:
    meter = LineMeter()
    meter.note(session(a=(0, 0)), 0.0)
    meter.note(session(a=(1000, 1000)), 5.0)
    assert meter.upload_bytes_per_second is None


def test_counters_that_begin_anew_are_no_speed_backwards() -> None:
    meter = LineMeter()
    meter.note(session(a=(9_000_000, 0)), 0.0)
    meter.note(session(a=(10, 0)), 1.0)
    assert meter.upload_bytes_per_second is None


# Sleep that nobody announced.


def test_clocks_that_agree_slept_never() -> None:
    gap = GapWatch()
    assert gap.look(0.0, 0.0, 1000.0, 0.0) is None
    assert gap.look(2.0, 0.0, 1002.0, 2.0) is None
    assert gap.look(30.0, 0.0, 1030.0, 2.0) is None  # late, but the links live


def test_a_clock_that_counts_sleep_tells_it() -> None:
    gap = GapWatch()
    gap.look(0.0, 5.0, 1000.0, 0.0)
    assert gap.look(2.0, 605.0, 1602.0, 2.0) == (1000.0, 1602.0)
    assert gap.look(4.0, 605.0, 1604.0, 2.0) is None


def test_where_there_is_none_being_late_tells_it() -> None:
    gap = GapWatch()
    gap.look(0.0, 0.0, 1000.0, 0.0)
    assert gap.look(302.0, 0.0, 1302.0, 2.0) == (1000.0, 1302.0)


def test_the_users_change_of_the_clock_is_no_sleep() -> None:
    gap = GapWatch()
    gap.look(0.0, 0.0, 1000.0, 0.0)
    assert gap.look(2.0, 0.0, 90_000.0, 2.0) is None
