"""The engine's state tree: sent whole on connection, then kept true by numbered patches.

Every number is a reading or a count; `None` means "cannot read" or "not yet". Times are seconds since the epoch.
"""

import msgspec

from engine.contract.reasons import Problem, Reason, RunState, Scalar


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all parts of the tree."""


class EngineInfo(Node, frozen=True, kw_only=True):
    """The engine itself."""

    version: str
    pid: int
    started_at: float
    peer_id: str
    identity_store: str  # "keyring" or "file"
    data_dir: str
    memory_bytes: int | None = None  # resident, engine process
    worker_memory_bytes: int | None = None  # resident, worker process; None when there is none


class Status(Node, frozen=True, kw_only=True):
    """One word, why, and until when."""

    state: RunState
    reasons: tuple[Reason, ...] = ()
    since: float = 0.0
    resumes_at: float | None = None


class HubStatus(Node, frozen=True, kw_only=True):
    """The hub as this computer sees it."""

    url: str
    connected: bool
    since: float = 0.0
    detail: str = ""  # why not, when not connected
    next_try_at: float | None = None


class ProjectCard(Node, frozen=True, kw_only=True):
    """A project in the hub's catalogue, verified against its publisher's signature."""

    project_id: str  # the manifest's hash, hex
    name: str
    title: str
    summary: str
    publisher: str
    licence: str
    data_summary: str
    parameter_count: int
    download_bytes: int
    memory_needed_bytes: int
    peers_now: int | None = None
    tokens_verified: int | None = None
    joined: bool = False
    unusable_because: str = ""  # empty when this computer can take part
    tokens_per_hour: float | None = None  # that this computer would do while away, about; None: not measured


class PeerInfo(Node, frozen=True, kw_only=True):
    """Another computer in the same project."""

    peer_id: str
    name: str  # its chosen name, or "" when it has none
    connected: bool
    path: str  # "loopback", "lan", "direct", "relayed" or ""
    global_step: int | None = None
    samples_per_second: float | None = None
    round_trip_seconds: float | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    lanes: int | None = None  # connections side by side that the link stripes its messages over
    loss: float | None = None  # share of packets to it that get lost
    upload_bytes_per_second: float | None = None  # of the link, as last used
    download_bytes_per_second: float | None = None


class RoundInfo(Node, frozen=True, kw_only=True):
    """The latest averaging round that ended here."""

    round_id: str
    global_step: int
    committed: bool
    members: int
    tokens: int  # of all accepted contributions
    my_tokens: int
    seconds: float
    at: float
    weights_hash: str = ""  # of the weights after it, when committed
    detail: str = ""  # why it was discarded


class CurvePoint(Node, frozen=True, kw_only=True):
    """One committed round on the learning curve."""

    global_step: int
    at: float
    train_loss: float | None  # nats per token, mean over the round's accepted samples
    held_out_loss: float | None  # nats per token
    tokens_total: int  # tokens of all committed rounds up to here
    mine: bool  # this computer's work was in it


class WrittenSample(Node, frozen=True, kw_only=True):
    """What the model writes now."""

    text: str
    prompt: str
    global_step: int
    at: float


class LinkNote(Node, frozen=True, kw_only=True):
    """A link to another computer came up or went down."""

    at: float  # seconds since the epoch
    peer_id: str
    what: str  # "up" or "down"
    path: str = ""  # of one that came up
    code: str = ""  # why it went down: a LinkEnd of the transport
    lost_bytes: int = 0  # of messages that were on their way


class SessionState(Node, frozen=True, kw_only=True):
    """The project being trained."""

    project_id: str
    title: str
    global_step: int = 0
    target_batch_samples: int = 0
    swarm_samples: int = 0  # accumulated towards the next step, all peers, estimated
    my_samples: int = 0
    my_tokens_per_second: float | None = None
    swarm_tokens_per_second: float | None = None
    rounds_committed: int = 0  # seen by this computer since it joined
    rounds_discarded: int = 0
    tokens_committed: int = 0  # of all members' accepted work in rounds committed here since joining
    my_tokens_committed: int = 0
    last_round: RoundInfo | None = None
    weights_hash: str = ""
    peers_agreeing: int = 0  # peers at the same step with the same hash
    train_loss: float | None = None
    held_out_loss: float | None = None
    sample: WrittenSample | None = None
    catch_up_fraction: float | None = None
    in_round: bool = False
    worker_state: str = "stopped"  # stopped, starting, training, frozen, paused, resting
    worker_pid: int | None = None
    worker_restarts: int = 0
    worker_gave_up: str = ""  # what it failed of, when it is not started again by itself
    device: str = ""
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    peers: tuple[PeerInfo, ...] = ()
    reachability: str = "unknown"  # what routers do to this computer's UDP: a `reach.Mapping`
    relay: str = "unknown"  # what the hub's relay can be used by: a `reach.Relay`
    lacks_relay: bool = False  # only relays may be used, and the hub offers none
    link_notes: tuple[LinkNote, ...] = ()  # the latest last
    upload_bytes_per_second: float | None = None  # what the line was seen to do, within the limits
    download_bytes_per_second: float | None = None
    wire_bytes_sent: int = 0  # over the internet since the session began, headers included
    wire_bytes_received: int = 0
    local_bytes_sent: int = 0  # within this computer and its local network
    local_bytes_received: int = 0


class LeaderboardRow(Node, frozen=True, kw_only=True):
    """One volunteer. Sums are of receipts, never of claims."""

    rank: int
    peer_id: str
    name: str
    verified_tokens: int
    pending_tokens: int
    rejected_tokens: int
    rounds: int
    me: bool = False


class Leaderboard(Node, frozen=True, kw_only=True):
    """The board of the joined project."""

    project_id: str = ""
    rows: tuple[LeaderboardRow, ...] = ()
    fetched_at: float | None = None


class GpuReading(Node, frozen=True, kw_only=True):
    """A graphics processor."""

    name: str
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    load_percent: float | None = None
    temperature_celsius: float | None = None
    usable: bool = False
    detail: str = ""  # why not usable
    slowdown_celsius: float | None = None  # where the card slows itself down
    foreign_load_percent: float | None = None  # by other programs
    own_memory_bytes: int | None = None  # held by training
    power_watts: float | None = None
    throttled: bool | None = None
    read_at: float | None = None  # these are last values while the card is not watched
    driver_version: str = ""


class SensorState(Node, frozen=True, kw_only=True):
    """How one thing is read on this computer."""

    name: str  # "idle", "battery", "temperature", ...: see docs/sensors.md
    known: bool  # False: it cannot be read, and `source` says why
    source: str
    read_at: float


class Machine(Node, frozen=True, kw_only=True):
    """This computer, as read a moment ago."""

    system: str = ""
    cpu_name: str = ""
    cores_physical: int | None = None
    cores_logical: int | None = None
    cpu_load_percent: float | None = None
    cpu_frequency_hertz: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    temperature_celsius: float | None = None
    temperature_source: str = ""
    on_battery: bool | None = None  # None: cannot read, or no battery fitted
    battery_percent: float | None = None
    idle_seconds: float | None = None
    idle_source: str = ""
    gpus: tuple[GpuReading, ...] = ()
    read_at: float | None = None
    temperature_critical_celsius: float | None = None  # what the processor itself calls critical
    thermal_state: str = ""  # where the system has only words: "nominal", "fair", "serious" or "critical"
    throttled: bool | None = None  # the processor is slowed down for heat or power now
    cpu_frequency_max_hertz: float | None = None
    fan_rpm: int | None = None
    idle_read_at: float | None = None  # when the idle time was read; None: with all else
    session_locked: bool | None = None
    full_screen: bool | None = None  # a program of somebody fills the screen, or gives a presentation
    exclusive_app_running: str = ""  # one of the programs that the user named
    foreign_cpu_percent: float | None = None  # other programs' share of all processors
    battery_source: str = ""
    energy_saver: bool | None = None
    metered: bool | None = None
    captive_portal: bool | None = None
    disk_used_bytes: int | None = None  # by our own folder
    power_watts: float | None = None
    power_source: str = ""
    energy_kilowatt_hours_today: float | None = None
    sensors: tuple[SensorState, ...] = ()


class Settings(Node, frozen=True, kw_only=True):
    """What the user decided. Bounds are in `settings.py`."""

    cpu_share_percent: int = 50
    pause_while_in_use: bool = True
    pause_on_battery: bool = True
    upload_limit_bytes_per_second: int | None = None
    download_limit_bytes_per_second: int | None = None
    display_name: str = ""
    hub_url: str = ""
    preset: str = "balanced"  # one of `PRESETS`; "custom" when a value is not the preset's
    cpu_share_in_use_percent: int = 25  # while somebody uses the computer; cpu_share_percent while nobody does
    gpu_while_in_use: bool = False
    away_after_seconds: int = 300  # without a key or mouse movement
    pause_on_energy_saver: bool = True
    pause_full_screen: bool = True  # the graphics card only
    exclusive_apps: tuple[str, ...] = ()  # names of executables during which nothing runs
    foreign_cpu_percent: int = 60  # other programs' load above which ours yields; 0: never
    foreign_gpu_percent: int = 15
    memory_in_use_percent: int = 25
    memory_away_percent: int = 60
    memory_free_bytes: int = 2 * 1024**3  # always left to others
    disk_limit_bytes: int = 20_000_000_000
    disk_free_bytes: int = 10_000_000_000  # always left to others
    data_cap_bytes: int | None = 50_000_000_000  # sent and received in `data_cap_days`
    data_cap_days: int = 30
    pause_on_metered: bool = True
    relay_only: bool = False  # other computers see a relay's address instead of this one's
    heat_target_cpu_celsius: int = 80
    heat_target_gpu_celsius: int = 75
    start_delay_seconds: int = 0
    keep_awake: bool = False
    compute_schedule: tuple[int, ...] = ()  # 7 masks of 24 hours, Monday first, bit 0 is midnight; empty: always
    network_schedule: tuple[int, ...] = ()
    electricity_price_per_kwh: float | None = None


class GovernorState(Node, frozen=True, kw_only=True):
    """How much may be computed now, and all that limits it. `Status` shows the first of it."""

    level: str = "stopped"  # "full", "reduced", "network_only" or "stopped"
    profile: str = "away"  # "in_use" or "away"
    duty: float = 0.0  # share of the time that the processor's threads compute
    gpu_duty: float = 0.0
    threads: int = 0
    devices: tuple[str, ...] = ()  # "cpu", and "gpu:<place in Machine.gpus>"
    reasons: tuple[Reason, ...] = ()  # all that holds now, most pressing first
    overridden: tuple[Reason, ...] = ()  # what would hold without the override
    since: float = 0.0
    resumes_at: float | None = None
    pause_until: float | None = None  # of a timed pause
    override_until: float | None = None  # None: no override
    data_used_bytes: int | None = None  # in the last `data_cap_days`
    keep_awake: str = ""  # "", "granted", or why the system did not grant it
    worked_seconds_yesterday: float | None = None


class PeriodInfo(Node, frozen=True, kw_only=True):
    """A time during which the engine ran at one level for the same reasons."""

    level: str
    from_at: float
    to_at: float
    reasons: tuple[Reason, ...] = ()
    open: bool = False  # still going on


class ReadingInfo(Node, frozen=True, kw_only=True):
    """The computer at one moment of the past: a stored reading, one a minute."""

    at: float
    level: str = ""
    duty: float = 0.0
    in_use: bool | None = None
    idle_seconds: float | None = None
    session_locked: bool | None = None
    on_battery: bool | None = None
    temperature_celsius: float | None = None
    gpu_temperature_celsius: float | None = None
    cpu_load_percent: float | None = None
    foreign_cpu_percent: float | None = None
    gpu_load_percent: float | None = None
    foreign_gpu_percent: float | None = None
    memory_free_bytes: int | None = None
    full_screen: bool | None = None
    energy_saver: bool | None = None
    metered: bool | None = None
    power_watts: float | None = None


class SettingsPreview(Node, frozen=True, kw_only=True):
    """What other settings would have meant for the stored readings."""

    refused: tuple[str, ...] = ()  # sentences; empty when the settings can be had
    from_at: float = 0.0
    to_at: float = 0.0
    known_seconds: float = 0.0  # of that time, how much was recorded
    worked_seconds: float = 0.0  # how much of it would have been worked


class DeviceSpeed(Node, frozen=True, kw_only=True):
    """What one device did with the reference model."""

    device: str
    name: str = ""
    tokens_per_second: float | None = None
    memory_bytes: int | None = None
    detail: str = ""  # why there is no number


class Measurement(Node, frozen=True, kw_only=True):
    """The benchmark of this computer, run on request."""

    state: str = ""  # "", "running", "done", "cancelled" or "failed"
    fraction: float | None = None
    at: float | None = None  # when it ended
    seconds: float | None = None
    devices: tuple[DeviceSpeed, ...] = ()
    memory_free_bytes: int | None = None
    upload_bytes_per_second: float | None = None
    download_bytes_per_second: float | None = None
    detail: str = ""


class KitState(Node, frozen=True, kw_only=True):
    """The training kit: the build of torch that fits this computer."""

    state: str = "included"  # "missing", "fetching", "paused", "unpacking", "testing", "ready", "failed" or "unusable"
    name: str = ""
    version: str = ""  # of torch
    computes_on: str = ""  # "cpu", "cuda", "rocm" or "mps"
    total_bytes: int = 0
    done_bytes: int = 0
    space_bytes: int = 0  # on the disk, while it is installed
    bytes_per_second: float | None = None
    fault: str = ""  # a code, when it failed
    params: dict[str, Scalar] = {}
    passed_over: str = ""  # why it is not for the graphics card: "driver_old", "driver_unreadable", "no_kit_for_card"
    card: str = ""
    driver_version: str = ""
    driver_needed: str = ""


class Today(Node, frozen=True, kw_only=True):
    """Since local midnight."""

    tokens_trained: int = 0  # processed here, whether or not they were accepted yet
    tokens_accepted: int = 0  # in committed rounds
    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


class EngineState(Node, frozen=True, kw_only=True):
    """The whole tree."""

    engine: EngineInfo
    status: Status
    hub: HubStatus
    settings: Settings = Settings()
    machine: Machine = Machine()
    governor: GovernorState = GovernorState()
    measurement: Measurement = Measurement()
    kit: KitState = KitState()
    today: Today = Today()
    projects: tuple[ProjectCard, ...] = ()
    session: SessionState | None = None
    curve: tuple[CurvePoint, ...] = ()
    leaderboard: Leaderboard = Leaderboard()
    problems: tuple[Problem, ...] = ()
