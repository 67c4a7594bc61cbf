"""Engine states for the window's tests and screenshots: plausible, fixed, rich."""

import math
import random
from typing import Any

import msgspec

from engine.contract.reasons import Problem, ProblemAction, ProblemCode, Reason, ReasonCode, RunState, Scalar
from engine.contract.snapshot import (
    CurvePoint,
    DeviceSpeed,
    EngineInfo,
    EngineState,
    GovernorState,
    GpuReading,
    HubStatus,
    Leaderboard,
    LeaderboardRow,
    Machine,
    Measurement,
    PeerInfo,
    PeriodInfo,
    ProjectCard,
    ReadingInfo,
    RoundInfo,
    SessionState,
    Settings,
    SettingsPreview,
    Status,
    Today,
    WrittenSample,
)
from engine.contract.week import OUTSIDE_OFFICE_HOURS

NOW = 1_790_000_000.0
ROUNDS = 64
PROJECT = "3f" * 32
HUB = "http://127.0.0.1:8470"
ME = "q7dk2m5x" + "a" * 44
ADA = "b3wz6n4p" + "b" * 44
LIN = "m2ht7c5v" + "c" * 44

WRITTEN = """(self, name, value):
        if name is None:
            raise ValueError("name must be set")
        self._values[name] = value
        return self

    def get(self, name, default=None):
        try:
            return self._values[name]
        except KeyError:
            return default
"""


def engine_info() -> EngineInfo:
    """An engine that runs since a while."""
    return EngineInfo(
        version="0.1.0",
        pid=4242,
        started_at=NOW - 3600,
        peer_id=ME,
        identity_store="keyring",
        data_dir="/home/ada/.local/share/potluck",
        memory_bytes=92_400_000,
        worker_memory_bytes=486_000_000,
    )


def machine(**changes: Any) -> Machine:
    """A laptop that can read most of itself."""
    reading = Machine(
        system="Linux 6.8",
        cpu_name="AMD Ryzen 5 5600U",
        cores_physical=6,
        cores_logical=12,
        cpu_load_percent=47.0,
        cpu_frequency_hertz=3.1e9,
        memory_total_bytes=16_000_000_000,
        memory_used_bytes=7_900_000_000,
        disk_free_bytes=212_000_000_000,
        temperature_celsius=63.0,
        temperature_source="k10temp",
        on_battery=False,
        battery_percent=88.0,
        idle_seconds=320.0,
        idle_source="X11 screen saver extension",
        foreign_cpu_percent=12.0,
        cpu_frequency_max_hertz=4.2e9,
        temperature_critical_celsius=105.0,
        throttled=False,
        fan_rpm=2100,
        session_locked=False,
        full_screen=False,
        energy_saver=False,
        metered=False,
        captive_portal=False,
        disk_used_bytes=340_000_000,
        power_watts=38.0,
        power_source="RAPL",
        energy_kilowatt_hours_today=0.42,
        gpus=(
            GpuReading(
                name="AMD Radeon Graphics",
                memory_total_bytes=2_000_000_000,
                memory_used_bytes=410_000_000,
                temperature_celsius=58.0,
                detail="this PyTorch has no support for it",
            ),
        ),
        read_at=NOW,
    )
    return msgspec.structs.replace(reading, **changes)


def project(**changes: Any) -> ProjectCard:
    """Pocket Python as its hub lists it."""
    card = ProjectCard(
        project_id=PROJECT,
        name="pocket-python",
        title="Pocket Python",
        summary="A small language model that learns to write Python from the standard library's own source text.",
        publisher="Potluck",
        licence="Apache-2.0",
        data_summary="the Python standard library on each computer",
        parameter_count=820_000,
        download_bytes=0,
        memory_needed_bytes=700_000_000,
        peers_now=3,
        tokens_verified=6_240_000,
    )
    return msgspec.structs.replace(card, **changes)


def catalogue(*, joined: bool) -> tuple[ProjectCard, ...]:
    """Three projects, one of which this computer cannot join."""
    return (
        project(joined=joined),
        project(
            project_id="a1" * 32,
            name="tide-tables",
            title="Tide tables",
            summary="Learns sea levels of 412 harbours from a century of gauges, to foresee surges three days ahead.",
            publisher="Harbour Watch",
            licence="CC-BY-4.0",
            data_summary="public tide gauges, 3.1 GB, streamed",
            parameter_count=14_200_000,
            download_bytes=58_000_000,
            memory_needed_bytes=1_900_000_000,
            peers_now=41,
            tokens_verified=3_910_000_000,
        ),
        project(
            project_id="c4" * 32,
            name="folk-songs",
            title="Folk songs of the North",
            summary="Completes melodies and verses collected by village archives between 1880 and 1950.",
            publisher="Arkiv Nord",
            licence="CC-BY-SA-4.0",
            data_summary="48 000 songs, 620 MB",
            parameter_count=1_310_000_000,
            download_bytes=2_600_000_000,
            memory_needed_bytes=21_000_000_000,
            peers_now=12,
            tokens_verified=880_000_000,
            unusable_because="it needs 21.0 GB of memory, and this computer has 16.0 GB",
        ),
    )


def curve(rounds: int = ROUNDS, *, mine_from: int = 9) -> tuple[CurvePoint, ...]:
    """A loss that falls as such losses do. This computer joins at round `mine_from` and is away for a while."""
    dice = random.Random(5)
    points = []
    for step in range(1, rounds + 1):
        trend = 1.62 + 3.6 * math.exp(-step / 9) + 0.55 * math.exp(-step / 40)
        points.append(
            CurvePoint(
                global_step=step,
                at=NOW - (rounds - step) * 9.5,
                train_loss=trend + dice.gauss(0, 0.025),
                held_out_loss=trend + 0.06 if step % 4 == 0 else None,
                tokens_total=step * 98_304,
                mine=step >= mine_from and not 30 <= step < 37,
            )
        )
    return tuple(points)


def peers() -> tuple[PeerInfo, ...]:
    """Two others, one with a name."""
    return (
        PeerInfo(
            peer_id=ADA,
            name="Ada's attic",
            connected=True,
            path="direct",
            global_step=ROUNDS,
            samples_per_second=46.2,
            round_trip_seconds=0.038,
            bytes_sent=41_000_000,
            bytes_received=39_500_000,
        ),
        PeerInfo(
            peer_id=LIN,
            name="",
            connected=True,
            path="relayed",
            global_step=ROUNDS,
            samples_per_second=18.9,
            round_trip_seconds=0.112,
            bytes_sent=40_100_000,
            bytes_received=38_800_000,
        ),
    )


def session(**changes: Any) -> SessionState:
    """Pocket Python in full swing."""
    last = RoundInfo(
        round_id="r64",
        global_step=ROUNDS,
        committed=True,
        members=3,
        tokens=98_304,
        my_tokens=38_912,
        seconds=1.9,
        at=NOW - 4,
    )
    state = SessionState(
        project_id=PROJECT,
        title="Pocket Python",
        global_step=ROUNDS,
        target_batch_samples=768,
        swarm_samples=476,
        my_samples=190,
        my_tokens_per_second=4_120.0,
        swarm_tokens_per_second=10_350.0,
        rounds_committed=49,
        rounds_discarded=1,
        tokens_committed=4_816_896,
        my_tokens_committed=1_870_000,
        last_round=last,
        weights_hash="9f3c",
        peers_agreeing=2,
        train_loss=1.741,
        held_out_loss=1.803,
        sample=WrittenSample(text=WRITTEN, prompt="def set_value", global_step=60, at=NOW - 42),
        worker_state="training",
        worker_pid=4311,
        device="CPU, 6 threads",
        checkpoint_step=60,
        checkpoint_at=NOW - 40,
        peers=peers(),
    )
    return msgspec.structs.replace(state, **changes)


def board(rows: int = 3) -> Leaderboard:
    """A board of so many rows, the user on the second."""
    named = [
        LeaderboardRow(
            rank=1,
            peer_id=ADA,
            name="Ada's attic",
            verified_tokens=2_884_608,
            pending_tokens=38_912,
            rejected_tokens=0,
            rounds=61,
        ),
        LeaderboardRow(
            rank=2,
            peer_id=ME,
            name="",
            verified_tokens=1_831_088,
            pending_tokens=38_912,
            rejected_tokens=0,
            rounds=48,
            me=True,
        ),
        LeaderboardRow(
            rank=3,
            peer_id=LIN,
            name="",
            verified_tokens=1_101_824,
            pending_tokens=20_480,
            rejected_tokens=2_048,
            rounds=57,
        ),
    ]
    more = [
        LeaderboardRow(
            rank=index,
            peer_id=f"p{index:07d}" + "z" * 44,
            name=f"Volunteer {index}" if index % 3 else "",
            verified_tokens=max(1_000_000 - 97 * index, 0),
            pending_tokens=128 * (index % 5),
            rejected_tokens=0,
            rounds=40,
        )
        for index in range(4, rows + 1)
    ]
    return Leaderboard(project_id=PROJECT, rows=tuple(named[:rows] + more), fetched_at=NOW - 12)


def empty() -> EngineState:
    """An engine that has read nothing yet and has no hub."""
    info = EngineInfo(version="0.1.0", pid=1, started_at=NOW, peer_id=ME, identity_store="file", data_dir="/tmp/p")
    return EngineState(
        engine=info,
        status=Status(state=RunState.IDLE, reasons=(Reason(code=ReasonCode.NO_PROJECT),), since=NOW),
        hub=HubStatus(url="", connected=False),
    )


def idle() -> EngineState:
    """Connected to a hub, no project joined."""
    return EngineState(
        engine=msgspec.structs.replace(engine_info(), worker_memory_bytes=None),
        status=Status(state=RunState.IDLE, reasons=(Reason(code=ReasonCode.NO_PROJECT),), since=NOW - 60),
        hub=HubStatus(url=HUB, connected=True, since=NOW - 60),
        settings=Settings(hub_url=HUB),
        machine=machine(),
        projects=catalogue(joined=False),
    )


def training() -> EngineState:
    """The whole thing at work."""
    return EngineState(
        engine=engine_info(),
        status=Status(state=RunState.TRAINING, since=NOW - 600),
        hub=HubStatus(url=HUB, connected=True, since=NOW - 3600),
        settings=Settings(hub_url=HUB, upload_limit_bytes_per_second=1_250_000),
        machine=machine(),
        today=Today(
            tokens_trained=1_943_552,
            tokens_accepted=1_870_000,
            rounds=49,
            bytes_sent=161_000_000,
            bytes_received=156_400_000,
        ),
        projects=catalogue(joined=True),
        session=session(),
        curve=curve(),
        leaderboard=board(),
    )


def reason(code: ReasonCode, **params: Scalar) -> Reason:
    """A reason with its parameters."""
    return Reason(code=code, params=params)


def held_back() -> EngineState:
    """Paused for four reasons at once, all of which yield."""
    reasons = (
        reason(ReasonCode.EXCLUSIVE_APP, app="blender"),
        reason(ReasonCode.USER_ACTIVE),
        reason(ReasonCode.COMPUTE_SCHEDULE),
        reason(ReasonCode.FOREIGN_CPU, percent=71),
    )
    before = training()
    return msgspec.structs.replace(
        before,
        status=Status(state=RunState.PAUSED, reasons=reasons[:1], since=NOW - 300),
        governor=GovernorState(level="stopped", profile="in_use", reasons=reasons, since=NOW - 300),
        machine=machine(idle_seconds=2.0, exclusive_app_running="blender", foreign_cpu_percent=71.0),
        settings=msgspec.structs.replace(
            before.settings,
            preset="custom",
            exclusive_apps=("blender", "steam"),
            compute_schedule=OUTSIDE_OFFICE_HOURS,
            electricity_price_per_kwh=0.31,
        ),
        session=session(my_tokens_per_second=None, worker_state="paused"),
    )


def overriding() -> EngineState:
    """Working in spite of the user's limits, and measuring done."""
    return msgspec.structs.replace(
        training(),
        governor=GovernorState(
            level="reduced",
            profile="in_use",
            duty=0.5,
            threads=6,
            devices=("cpu",),
            overridden=(reason(ReasonCode.USER_ACTIVE), reason(ReasonCode.COMPUTE_SCHEDULE)),
            override_until=NOW + 2400,
            data_used_bytes=12_400_000_000,
            keep_awake="granted",
        ),
        measurement=measured(),
    )


def measured() -> Measurement:
    """A measurement of a while ago."""
    return Measurement(
        state="done",
        at=NOW - 7200,
        seconds=58.0,
        devices=(
            DeviceSpeed(device="cpu", name="Processor", tokens_per_second=4_310.0, memory_bytes=512_000_000),
            DeviceSpeed(device="gpu:0", name="AMD Radeon Graphics", detail="this PyTorch has no support for it"),
        ),
        memory_free_bytes=8_100_000_000,
        upload_bytes_per_second=1_400_000.0,
        download_bytes_per_second=6_100_000.0,
    )


def periods() -> tuple[PeriodInfo, ...]:
    """A day of work, rest and use, with an hour in which nothing ran."""
    user, heat = reason(ReasonCode.USER_ACTIVE), reason(ReasonCode.LESS_FOR_HEAT, target_celsius=80)
    battery, hours_ = reason(ReasonCode.ON_BATTERY), reason(ReasonCode.COMPUTE_SCHEDULE)
    plan = [
        ("reduced", (), 6.5),
        ("stopped", (user,), 1.2),
        ("reduced", (heat,), 0.8),
        ("stopped", (user, hours_), 3.5),
        ("", (), 1.0),
        ("network_only", (battery,), 0.7),
        ("stopped", (battery, user), 0.8),
        ("full", (), 4.0),
        ("stopped", (user,), 2.5),
        ("reduced", (), 3.0),
    ]
    found = []
    at = NOW - 24 * 3600
    for level, reasons, hours in plan:
        if level:
            found.append(PeriodInfo(level=level, reasons=reasons, from_at=at, to_at=at + hours * 3600))
        at += hours * 3600
    return (*found[:-1], msgspec.structs.replace(found[-1], open=True))


def readings() -> tuple[ReadingInfo, ...]:
    """A temperature that follows the work, one a minute."""
    warm = {"full": 79.0, "reduced": 68.0}
    found = []
    celsius = 45.0
    for minute in range(24 * 60):
        at = NOW - 24 * 3600 + minute * 60
        period = next((p for p in periods() if p.from_at <= at < p.to_at), None)
        celsius += 0.08 * (warm.get(period.level if period else "", 44.0) - celsius)
        if period is not None:
            shown = celsius + 1.5 * math.sin(minute / 7)
            found.append(ReadingInfo(at=at, level=period.level, temperature_celsius=shown))
    return tuple(found)


def preview() -> SettingsPreview:
    """What the settings would have meant yesterday."""
    return SettingsPreview(
        from_at=NOW - 40 * 3600, to_at=NOW - 16 * 3600, known_seconds=86_000, worked_seconds=6.5 * 3600
    )


def paused() -> EngineState:
    """Paused by the user for a time."""
    return msgspec.structs.replace(
        training(),
        status=Status(
            state=RunState.PAUSED, reasons=(Reason(code=ReasonCode.USER_PAUSED),), since=NOW, resumes_at=NOW + 1800
        ),
        session=session(my_tokens_per_second=None, worker_state="paused"),
    )


def on_battery() -> EngineState:
    """Paused by the rules."""
    return msgspec.structs.replace(
        training(),
        status=Status(state=RunState.PAUSED, reasons=(Reason(code=ReasonCode.ON_BATTERY),), since=NOW),
        machine=machine(on_battery=True, temperature_celsius=None, temperature_source="", idle_seconds=None),
    )


def worker_problem() -> Problem:
    """Training keeps failing."""
    return Problem(
        problem_id="p1",
        code=ProblemCode.WORKER_FAILED,
        action=ProblemAction.RESTART_WORKER,
        at=NOW,
        params={"restarts": 3, "detail": "out of memory"},
    )


def keyring_problem() -> Problem:
    """A notice rather than a trouble."""
    return Problem(
        problem_id="p2",
        code=ProblemCode.NO_KEYRING,
        action=ProblemAction.DISMISS,
        at=NOW - 100,
        params={"path": "/home/ada/.local/share/potluck/identity.key"},
    )


def trouble() -> EngineState:
    """Stopped, with two cards."""
    return msgspec.structs.replace(
        training(),
        status=Status(
            state=RunState.PROBLEM,
            reasons=(Reason(code=ReasonCode.WORKER_KEEPS_FAILING, params={"restarts": 3}),),
            since=NOW,
        ),
        session=session(worker_state="stopped", my_tokens_per_second=None),
        problems=(worker_problem(), keyring_problem()),
    )


def hub_away() -> EngineState:
    """Training goes on while the hub is gone."""
    return msgspec.structs.replace(
        training(),
        hub=HubStatus(url=HUB, connected=False, since=NOW - 30, detail="connection refused", next_try_at=NOW + 20),
        problems=(
            Problem(
                problem_id="p3",
                code=ProblemCode.HUB_UNREACHABLE,
                action=ProblemAction.RETRY_HUB,
                at=NOW,
                params={"url": HUB, "detail": "connection refused"},
            ),
        ),
        leaderboard=Leaderboard(project_id=PROJECT),
    )


ALL_STATES = {
    "empty": empty,
    "idle": idle,
    "training": training,
    "paused": paused,
    "on_battery": on_battery,
    "held_back": held_back,
    "overriding": overriding,
    "trouble": trouble,
    "hub_away": hub_away,
}
"""Every kind of state that each page must be able to show."""
