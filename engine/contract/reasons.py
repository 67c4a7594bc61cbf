"""Why the engine does what it does, as codes with parameters; every face turns them into the same words."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

Scalar: TypeAlias = str | int | float | bool


class RunState(StrEnum):
    """What the engine is doing, in one word."""

    IDLE = "idle"  # no project joined
    CONNECTING = "connecting"  # joined, looking for the hub and other computers
    CATCHING_UP = "catching_up"  # fetching the shared model from another computer
    TRAINING = "training"
    AVERAGING = "averaging"  # a round is in progress
    WAITING = "waiting"  # ready, but something outside is missing
    PAUSED = "paused"
    LEAVING = "leaving"
    PROBLEM = "problem"  # needs the user


class ReasonCode(StrEnum):
    """Causes of a state; each has one sentence in the window and on the command line."""

    NO_PROJECT = "no_project"
    USER_PAUSED = "user_paused"
    USER_ACTIVE = "user_active"
    ON_BATTERY = "on_battery"
    TOO_HOT = "too_hot"
    HUB_UNREACHABLE = "hub_unreachable"
    WAITING_TO_JOIN = "waiting_to_join"
    LOOKING_FOR_PEERS = "looking_for_peers"
    PEERS_NOT_REACHABLE = "peers_not_reachable"
    NO_RELAY = "no_relay"
    FETCHING_MODEL = "fetching_model"
    STARTING_WORKER = "starting_worker"
    WORKER_RESTARTING = "worker_restarting"
    WORKER_KEEPS_FAILING = "worker_keeps_failing"
    MODEL_MISMATCH = "model_mismatch"
    DISK_FULL = "disk_full"
    STORE_UNWRITABLE = "store_unwritable"
    LEAVING_AFTER_ROUND = "leaving_after_round"
    LEAVING_NOW = "leaving_now"
    KIT_MISSING = "kit_missing"
    KIT_COMING = "kit_coming"  # percent
    # The governor's; USER_PAUSED to TOO_HOT above are too.
    SYSTEM_SLEEPS = "system_sleeps"
    SYSTEM_ENDS = "system_ends"
    DISK_RESERVE = "disk_reserve"  # free_gigabytes, limit_gigabytes
    DISK_LIMIT = "disk_limit"  # used_gigabytes, limit_gigabytes
    DATA_CAP = "data_cap"  # used_gigabytes, limit_gigabytes, days
    METERED = "metered"
    MEMORY_LOW = "memory_low"  # free_gigabytes, limit_gigabytes
    EXCLUSIVE_APP = "exclusive_app"  # app
    ENERGY_SAVER = "energy_saver"
    CAPTIVE_PORTAL = "captive_portal"
    NETWORK_SCHEDULE = "network_schedule"
    COMPUTE_SCHEDULE = "compute_schedule"
    START_DELAY = "start_delay"
    MEMORY_SHARE = "memory_share"  # used_gigabytes, limit_gigabytes
    FOREIGN_CPU = "foreign_cpu"  # percent
    MEASURING = "measuring"
    GPU_TOO_HOT = "gpu_too_hot"  # celsius, limit_celsius
    GPU_FULL_SCREEN = "gpu_full_screen"
    GPU_FOREIGN_LOAD = "gpu_foreign_load"  # percent
    GPU_MEMORY_LOW = "gpu_memory_low"
    GPU_IN_USE = "gpu_in_use"
    LESS_IN_USE = "less_in_use"  # percent
    LESS_FOR_HEAT = "less_for_heat"  # target_celsius
    HEAT_UNREADABLE = "heat_unreadable"


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One cause. `params` fill the sentence's placeholders."""

    code: ReasonCode
    params: dict[str, Scalar] = {}


class ProblemCode(StrEnum):
    """Things that the user should know of, each shown as a card with one action."""

    HUB_UNREACHABLE = "hub_unreachable"  # url, detail
    HUB_NONSENSE = "hub_nonsense"  # url, detail
    MANIFEST_REFUSED = "manifest_refused"  # detail
    STORE_REPLACED = "store_replaced"  # path, backup_path
    STORE_UNWRITABLE = "store_unwritable"  # path, detail
    CHECKPOINT_DISK_FULL = "checkpoint_disk_full"  # path, detail
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"  # path, detail
    FOLDER_DISK_FULL = "folder_disk_full"  # path
    FOLDER_UNUSABLE = "folder_unusable"  # path, detail
    WORKER_FAILED = "worker_failed"  # detail, restarts
    MODEL_MISMATCH = "model_mismatch"  # detail
    DATA_UNAVAILABLE = "data_unavailable"  # detail
    NO_KEYRING = "no_keyring"  # path
    WEIGHTS_DIFFERED = "weights_differed"  # step
    KIT_MISSING = "kit_missing"  # gigabytes
    KIT_FAILED = "kit_failed"  # detail
    DATA_CAP_NEAR = "data_cap_near"  # used_gigabytes, limit_gigabytes, days
    INTERNAL = "internal"  # report_id, detail


class ProblemAction(StrEnum):
    """The one button on a problem card."""

    NONE = "none"
    RETRY_HUB = "retry_hub"
    RESTART_WORKER = "restart_worker"
    GET_KIT = "get_kit"
    DISMISS = "dismiss"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem card. The same code with the same params is one problem, however often it happens."""

    problem_id: str
    code: ProblemCode
    action: ProblemAction
    at: float  # seconds since the epoch, last time it happened
    params: dict[str, Scalar] = {}
