"""The engine's state tree: sent whole on connection, then kept true by numbered patches.

Every number is a reading or a count; `None` means "cannot read" or "not yet". Times are seconds since the epoch.
"""

import msgspec

from engine.contract.reasons import Problem, Reason, RunState


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
    worker_state: str = "stopped"  # stopped, starting, training, frozen, paused
    worker_pid: int | None = None
    worker_restarts: int = 0
    worker_gave_up: str = ""  # what it failed of, when it is not started again by itself
    device: str = ""
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    peers: tuple[PeerInfo, ...] = ()


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
    temperature_celsius: float | None = None
    temperature_source: str = ""
    on_battery: bool | None = None  # None: cannot read, or no battery fitted
    battery_percent: float | None = None
    idle_seconds: float | None = None
    idle_source: str = ""
    gpus: tuple[GpuReading, ...] = ()
    read_at: float | None = None


class Settings(Node, frozen=True, kw_only=True):
    """What the user decided. Bounds are in `settings.py`."""

    cpu_share_percent: int = 50
    pause_while_in_use: bool = True
    pause_on_battery: bool = True
    upload_limit_bytes_per_second: int | None = None
    display_name: str = ""
    hub_url: str = ""


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
    today: Today = Today()
    projects: tuple[ProjectCard, ...] = ()
    session: SessionState | None = None
    curve: tuple[CurvePoint, ...] = ()
    leaderboard: Leaderboard = Leaderboard()
    problems: tuple[Problem, ...] = ()
