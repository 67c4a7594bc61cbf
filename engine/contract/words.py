"""The words for every code, in English: state, cause, next. The window passes its translator over the same templates.

Each code has templates from the most telling to the plainest. The first whose placeholders all have a value is used;
the last has none, so that missing parameters cost detail and never raise.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from engine.contract.errors import ErrorCode
from engine.contract.reasons import Problem, ProblemAction, ProblemCode, Reason, ReasonCode, RunState, Scalar
from engine.contract.snapshot import SessionState, Status

Translate: TypeAlias = Callable[[str], str]
Templates: TypeAlias = tuple[str, ...]

MAX_VALUE_CHARS: Final = 240
MAX_SHOWN_REASONS: Final = 3

STATE_LABELS: Final[Mapping[RunState, str]] = {
    RunState.IDLE: "Ready",
    RunState.CONNECTING: "Connecting",
    RunState.CATCHING_UP: "Catching up",
    RunState.TRAINING: "Training",
    RunState.AVERAGING: "Sharing a round",
    RunState.WAITING: "Waiting",
    RunState.PAUSED: "Paused",
    RunState.LEAVING: "Leaving",
    RunState.PROBLEM: "Stopped",
}

STATES: Final[Mapping[RunState, Templates]] = {
    RunState.IDLE: ("Ready.",),
    RunState.CONNECTING: ("Connecting.",),
    RunState.CATCHING_UP: ("Catching up.",),
    RunState.TRAINING: ("Training with {peers} other computers.", "Training."),
    RunState.AVERAGING: ("Sharing a round with {peers} other computers.", "Sharing a round."),
    RunState.WAITING: ("Waiting.",),
    RunState.PAUSED: ("Paused.",),
    RunState.LEAVING: ("Leaving the project.",),
    RunState.PROBLEM: ("Stopped.",),
}

WITH_ONE_PEER: Final[Mapping[RunState, str]] = {
    RunState.TRAINING: "Training with 1 other computer.",
    RunState.AVERAGING: "Sharing a round with 1 other computer.",
}
ALONE: Final = "Training. No other computer is connected now."
RESUMES_AT: Final = "Resumes at {time}."
RESUMES_AFTER_ALL: Final = "Resumes when all of this has passed."
OVERRIDDEN: Final = "Set aside until {time}: {cause}"
TRAINED: Final = "Since {time} it trained {worked} of {ran}."
STOPPED_FOR: Final = "{duration}: {cause}"
NOT_RUNNING: Final = "{duration}: Potluck was not running."
USES: Final = "It may use {threads} threads, each for {percent} % of the time."
USES_ONE: Final = "It may use one thread, for {percent} % of the time."
KEPT_AWAKE: Final = "This computer is kept awake while it trains, as you asked."
NOT_KEPT_AWAKE: Final = "The system does not keep this computer awake: {detail}."
FROM_TO: Final = "{begin} to {end}: {label}."
UNTIL_NOW: Final = "Since {begin}: {label}."
HOURS: Final = "{hours} h {minutes} min"
MINUTES: Final = "{minutes} min"
SECONDS: Final = "{seconds} s"
WHY: Final = (
    OVERRIDDEN,
    TRAINED,
    STOPPED_FOR,
    NOT_RUNNING,
    USES,
    USES_ONE,
    KEPT_AWAKE,
    NOT_KEPT_AWAKE,
    FROM_TO,
    UNTIL_NOW,
    HOURS,
    MINUTES,
    SECONDS,
)
"""What `engine.contract.why` says beside the sentences of here."""

IMPLIED_REASONS: Final[Mapping[RunState, ReasonCode]] = {
    RunState.IDLE: ReasonCode.NO_PROJECT,
    RunState.CONNECTING: ReasonCode.LOOKING_FOR_PEERS,
    RunState.CATCHING_UP: ReasonCode.FETCHING_MODEL,
}
"""What a state means when it comes without a reason."""

CAUSES: Final[Mapping[ReasonCode, Templates]] = {
    ReasonCode.NO_PROJECT: ("You have not joined a project.",),
    ReasonCode.USER_PAUSED: ("You paused it.",),
    ReasonCode.USER_ACTIVE: ("You are using this computer.",),
    ReasonCode.ON_BATTERY: ("You are on battery.",),
    ReasonCode.TOO_HOT: ("This computer is too hot ({celsius} °C).", "This computer is too hot."),
    ReasonCode.HUB_UNREACHABLE: ("The hub at {url} cannot be reached.", "The hub cannot be reached."),
    ReasonCode.WAITING_TO_JOIN: (
        "Potluck joins {project} when the hub at {url} answers.",
        "Potluck joins {project} when the hub lists it.",
        "Potluck joins a project when the hub lists it.",
    ),
    ReasonCode.LOOKING_FOR_PEERS: ("Looking for other computers in this project.",),
    ReasonCode.PEERS_NOT_REACHABLE: (
        "{others} other computers were found; none could be connected yet.",
        "Another computer was found; it could not be connected yet.",
    ),
    ReasonCode.NO_RELAY: ("This computer's address is to stay hidden, and the hub offers no relay.",),
    ReasonCode.FETCHING_MODEL: (
        "About {percent} % of the shared model is here.",
        "The shared model comes from another computer.",
    ),
    ReasonCode.STARTING_WORKER: ("The model is being set up on this computer.",),
    ReasonCode.WORKER_RESTARTING: ("Training ended unexpectedly and is started again.",),
    ReasonCode.WORKER_KEEPS_FAILING: (
        "Training failed {restarts} times in a row.",
        "Training keeps failing on this computer.",
    ),
    ReasonCode.MODEL_MISMATCH: ("This version of Potluck cannot build the project's model.",),
    ReasonCode.DISK_FULL: ("The disk that holds {path} is full.", "The disk is full."),
    ReasonCode.STORE_UNWRITABLE: ("Potluck cannot save to {path}.", "Potluck cannot save its records."),
    ReasonCode.LEAVING_AFTER_ROUND: ("The round in progress is finished first.",),
    ReasonCode.KIT_MISSING: ("The training kit is not installed yet.",),
    ReasonCode.KIT_COMING: (
        "The training kit is being installed: {percent} %.",
        "The training kit is being installed.",
    ),
    ReasonCode.LEAVING_NOW: ("The round in progress is not waited for.",),
    ReasonCode.SYSTEM_SLEEPS: ("This computer is going to sleep.",),
    ReasonCode.SYSTEM_ENDS: ("This computer is shutting down, or you are logging out.",),
    ReasonCode.DISK_RESERVE: ("Only {free_gigabytes} GB of the disk are free.", "Free disk space is short."),
    ReasonCode.DISK_LIMIT: (
        "Potluck's files fill the {limit_gigabytes} GB that you allow.",
        "Potluck's files fill all the disk space that you allow.",
    ),
    ReasonCode.DATA_CAP: (
        "{used_gigabytes} of {limit_gigabytes} GB were sent and received in {days} days.",
        "The data limit is reached.",
    ),
    ReasonCode.METERED: ("This network is metered.",),
    ReasonCode.MEMORY_LOW: ("Only {free_gigabytes} GB of memory are free.", "Memory is short."),
    ReasonCode.EXCLUSIVE_APP: ("{app} is running.", "A program that you named is running."),
    ReasonCode.ENERGY_SAVER: ("Energy saver is on.",),
    ReasonCode.CAPTIVE_PORTAL: ("This network asks you to sign in first.",),
    ReasonCode.NETWORK_SCHEDULE: ("This hour is not one of your network hours.",),
    ReasonCode.COMPUTE_SCHEDULE: ("This hour is not one of your training hours.",),
    ReasonCode.START_DELAY: ("Potluck has only just started.",),
    ReasonCode.MEMORY_SHARE: (
        "Potluck needs more than the {limit_gigabytes} GB of memory that you allow now.",
        "Potluck needs more memory than you allow now.",
    ),
    ReasonCode.FOREIGN_CPU: (
        "Other programs use {percent} % of the processor.",
        "Other programs need the processor.",
    ),
    ReasonCode.MEASURING: ("The speed of this computer is being measured.",),
    ReasonCode.GPU_TOO_HOT: (
        "The graphics card is too hot ({celsius} °C), so it is not used.",
        "The graphics card is too hot, so it is not used.",
    ),
    ReasonCode.GPU_FULL_SCREEN: ("A program fills the screen, so the graphics card is left to it.",),
    ReasonCode.GPU_FOREIGN_LOAD: (
        "Other programs use {percent} % of the graphics card, so it is left to them.",
        "Other programs need the graphics card, so it is left to them.",
    ),
    ReasonCode.GPU_MEMORY_LOW: ("The graphics card's memory is short, so it is not used.",),
    ReasonCode.GPU_IN_USE: ("You are using this computer, so its graphics card is left to you.",),
    ReasonCode.LESS_IN_USE: (
        "You are using this computer, so at most {percent} % of the processor is used.",
        "You are using this computer, so less of the processor is used.",
    ),
    ReasonCode.LESS_FOR_HEAT: (
        "It works less, to stay near {target_celsius} °C.",
        "It works less, to stay cool.",
    ),
    ReasonCode.HEAT_UNREADABLE: ("The processor's temperature cannot be read, so half of it is used.",),
}

NEXT: Final[Mapping[ReasonCode, Templates]] = {
    ReasonCode.NO_PROJECT: ("Choose one under Projects.",),
    ReasonCode.USER_PAUSED: ("Resumes when you press Resume.",),
    ReasonCode.USER_ACTIVE: ("Resumes when you are away.",),
    ReasonCode.ON_BATTERY: ("Resumes when plugged in.",),
    ReasonCode.TOO_HOT: ("Resumes below {limit_celsius} °C.", "Resumes when it has cooled down."),
    ReasonCode.HUB_UNREACHABLE: ("Potluck keeps trying.",),
    ReasonCode.WAITING_TO_JOIN: ("Potluck keeps trying.",),
    ReasonCode.PEERS_NOT_REACHABLE: ("Potluck keeps trying.",),
    ReasonCode.NO_RELAY: ("Choose another hub, or let others see the address: Settings, Network.",),
    ReasonCode.LOOKING_FOR_PEERS: (
        "Training starts when {minimum_peers} take part.",
        "Training starts when some are found.",
    ),
    ReasonCode.FETCHING_MODEL: ("Training starts when all of it is here.",),
    ReasonCode.STARTING_WORKER: ("Training starts in a moment.",),
    ReasonCode.WORKER_RESTARTING: ("Nothing that was shared is lost.",),
    ReasonCode.WORKER_KEEPS_FAILING: ("Press Restart training to try again.",),
    ReasonCode.MODEL_MISMATCH: ("Update Potluck, or leave the project.",),
    ReasonCode.DISK_FULL: ("Resumes when there is free space.",),
    ReasonCode.STORE_UNWRITABLE: ("Free some space or allow writing there.",),
    ReasonCode.LEAVING_AFTER_ROUND: ("Nothing is lost.",),
    ReasonCode.LEAVING_NOW: ("What was not shared yet is dropped.",),
    ReasonCode.KIT_MISSING: ("Starts when you get it.",),
    ReasonCode.KIT_COMING: ("Starts when it is there.",),
    ReasonCode.SYSTEM_SLEEPS: ("Resumes when it wakes.",),
    ReasonCode.SYSTEM_ENDS: ("Everything is saved first.",),
    ReasonCode.DISK_RESERVE: ("Resumes when {limit_gigabytes} GB are free.", "Resumes when more of the disk is free."),
    ReasonCode.DISK_LIMIT: ("Resumes when you allow more.",),
    ReasonCode.DATA_CAP: ("Resumes as the days pass, or when you allow more.",),
    ReasonCode.METERED: ("Resumes on another network.",),
    ReasonCode.MEMORY_LOW: ("Resumes when {limit_gigabytes} GB are free.", "Resumes when more memory is free."),
    ReasonCode.EXCLUSIVE_APP: ("Resumes when it has ended.",),
    ReasonCode.ENERGY_SAVER: ("Resumes when it is off.",),
    ReasonCode.CAPTIVE_PORTAL: ("Resumes when you have signed in.",),
    ReasonCode.NETWORK_SCHEDULE: ("Resumes in the next hour that you allow.",),
    ReasonCode.COMPUTE_SCHEDULE: ("Resumes in the next hour that you allow.",),
    ReasonCode.START_DELAY: ("Training begins after the delay that you chose.",),
    ReasonCode.MEMORY_SHARE: ("Resumes when you allow more, or when you are away.",),
    ReasonCode.FOREIGN_CPU: ("Resumes half a minute after they are done.",),
    ReasonCode.MEASURING: ("Resumes when that is done.",),
    ReasonCode.GPU_TOO_HOT: ("It is used again below {limit_celsius} °C.", "It is used again when it has cooled down."),
    ReasonCode.GPU_FULL_SCREEN: ("It is used again when that program is done.",),
    ReasonCode.GPU_FOREIGN_LOAD: ("It is used again half a minute after they are done.",),
    ReasonCode.GPU_MEMORY_LOW: ("It is used again when there is room.",),
    ReasonCode.GPU_IN_USE: ("It is used again when you are away.",),
    ReasonCode.LESS_IN_USE: ("More is used when you are away.",),
    ReasonCode.LESS_FOR_HEAT: ("It works more when it is cooler.",),
    ReasonCode.HEAT_UNREADABLE: ("Choose a share yourself in Settings to change that.",),
}

PROBLEM_TITLES: Final[Mapping[ProblemCode, Templates]] = {
    ProblemCode.HUB_UNREACHABLE: ("The hub cannot be reached",),
    ProblemCode.HUB_NONSENSE: ("The hub's answer makes no sense",),
    ProblemCode.MANIFEST_REFUSED: ("A project was refused",),
    ProblemCode.STORE_REPLACED: ("Potluck's records were damaged and are new",),
    ProblemCode.STORE_UNWRITABLE: ("Potluck cannot save its records",),
    ProblemCode.CHECKPOINT_DISK_FULL: ("The model was not saved: the disk is full",),
    ProblemCode.CHECKPOINT_UNREADABLE: ("A saved model cannot be read",),
    ProblemCode.FOLDER_DISK_FULL: ("The project cannot start: the disk is full",),
    ProblemCode.FOLDER_UNUSABLE: ("The project's folder cannot be used",),
    ProblemCode.WORKER_FAILED: ("Training keeps failing on this computer",),
    ProblemCode.MODEL_MISMATCH: ("This project's model cannot be built here",),
    ProblemCode.DATA_UNAVAILABLE: ("The training data cannot be read",),
    ProblemCode.NO_KEYRING: ("Your key is kept in a file",),
    ProblemCode.WEIGHTS_DIFFERED: ("This computer's model differed from the others'",),
    ProblemCode.KIT_MISSING: ("Training needs one more download",),
    ProblemCode.KIT_FAILED: ("The training kit could not be installed",),
    ProblemCode.DATA_CAP_NEAR: ("Most of your data limit is used up",),
    ProblemCode.INTERNAL: ("Something went wrong inside Potluck",),
}

PROBLEM_TEXTS: Final[Mapping[ProblemCode, Templates]] = {
    ProblemCode.HUB_UNREACHABLE: (
        "{url}: {detail}. Connected computers go on. Check your line, then try again.",
        "{url} does not answer. Connected computers go on. Check your line, then try again.",
        "It does not answer. Connected computers go on. Check your line, then try again.",
    ),
    ProblemCode.HUB_NONSENSE: (
        "{url}: {detail}. Check the hub's address in Settings, then try again.",
        "Check the hub's address in Settings, then try again.",
    ),
    ProblemCode.MANIFEST_REFUSED: (
        "Its description is not valid: {detail}. Tell its publisher, or choose another project.",
        "Its description is not valid. Tell its publisher, or choose another project.",
    ),
    ProblemCode.STORE_REPLACED: (
        "The damaged file {path} was kept as {backup_path}. Join your project again.",
        "The damaged file was kept beside the new one. Join your project again.",
    ),
    ProblemCode.STORE_UNWRITABLE: (
        "{path}: {detail}. Training goes on. Free some space or allow writing there.",
        "{path} cannot be written. Training goes on. Free some space or allow writing there.",
        "Training goes on. Free some space on the disk.",
    ),
    ProblemCode.CHECKPOINT_DISK_FULL: (
        "{path}: {detail}. The last saved one is kept. Free some space on this disk.",
        "{path} could not be written. The last saved one is kept. Free some space on this disk.",
        "The last saved one is kept. Free some space on the disk.",
    ),
    ProblemCode.CHECKPOINT_UNREADABLE: (
        "{path}: {detail}. The model is fetched from another computer; nothing is to be done.",
        "The model is fetched from another computer; nothing is to be done.",
    ),
    ProblemCode.FOLDER_DISK_FULL: (
        "{path} could not be written. Potluck keeps trying. Free some space on this disk.",
        "Potluck keeps trying. Free some space on this disk.",
    ),
    ProblemCode.FOLDER_UNUSABLE: (
        "{path}: {detail}. Potluck keeps trying. Allow reading and writing there.",
        "{path} cannot be used. Potluck keeps trying. Allow reading and writing there.",
        "Potluck keeps trying. Allow reading and writing there.",
    ),
    ProblemCode.WORKER_FAILED: (
        "It ended {restarts} times, last with: {detail}. Restart training when the cause is gone.",
        "It ended with: {detail}. Restart training when the cause is gone.",
        "Restart training when the cause is gone.",
    ),
    ProblemCode.MODEL_MISMATCH: (
        "{detail}. Update Potluck, or leave the project.",
        "Update Potluck, or leave the project.",
    ),
    ProblemCode.DATA_UNAVAILABLE: (
        "{detail}. Restart training when the data is there.",
        "Restart training when the data is there.",
    ),
    ProblemCode.NO_KEYRING: (
        "This system has no keyring, so the key is in {path}. Keep that file private.",
        "This system has no keyring, so the key is in a file. Keep that file private.",
    ),
    ProblemCode.WEIGHTS_DIFFERED: (
        "At step {step} it was fetched again from another computer. If this returns, test your memory.",
        "It was fetched again from another computer. If this returns, test your memory.",
    ),
    ProblemCode.KIT_MISSING: (
        "The training kit for this computer has {gigabytes} GB. It is fetched once and can be paused.",
        "The training kit for this computer is fetched once and can be paused.",
    ),
    ProblemCode.KIT_FAILED: ("{detail}.", "Try again."),
    ProblemCode.DATA_CAP_NEAR: (
        "{used_gigabytes} of {limit_gigabytes} GB in {days} days. At the limit Potluck pauses until days pass.",
        "At the limit Potluck pauses until days pass.",
    ),
    ProblemCode.INTERNAL: (
        "{detail}. The log tells more under {report_id}. Restart Potluck if it stays.",
        "The log tells more under {report_id}. Restart Potluck if it stays.",
        "The log tells more. Restart Potluck if it stays.",
    ),
}

ACTION_LABELS: Final[Mapping[ProblemAction, str]] = {
    ProblemAction.NONE: "",
    ProblemAction.RETRY_HUB: "Try again",
    ProblemAction.RESTART_WORKER: "Restart training",
    ProblemAction.GET_KIT: "Get training kit",
    ProblemAction.DISMISS: "Dismiss",
}

ERRORS: Final[Mapping[ErrorCode, Templates]] = {
    ErrorCode.BAD_REQUEST: (
        "That was not understood: {detail}. Correct it and try again.",
        "That was not understood. Correct it and try again.",
    ),
    ErrorCode.UNKNOWN_METHOD: (
        "The running Potluck cannot do this ({method}). Restart Potluck.",
        "The running Potluck cannot do this. Restart Potluck.",
    ),
    ErrorCode.BAD_TOKEN: ("The running Potluck did not let this window in. Restart Potluck.",),
    ErrorCode.VERSION_MISMATCH: ("Another version of Potluck is running. Quit it, then start Potluck again.",),
    ErrorCode.UNKNOWN_PROJECT: (
        "The hub has no project {project}. Choose one under Projects.",
        "The hub has no such project. Choose one under Projects.",
    ),
    ErrorCode.BAD_SETTING: (
        "{name} was not changed: {detail}. Choose another value.",
        "{name} was not changed. Choose another value.",
        "The setting was not changed. Choose another value.",
    ),
    ErrorCode.BAD_LINK: (
        "This link cannot be used: {detail}. Copy it again from the project's page.",
        "This link cannot be used. Copy it again from the project's page.",
    ),
    ErrorCode.HUB_UNREACHABLE: (
        "{url} cannot be reached: {detail}. Check your line, then try again.",
        "The hub at {url} cannot be reached. Check your line, then try again.",
        "The hub cannot be reached. Check your line, then try again.",
    ),
    ErrorCode.PROJECT_UNUSABLE: (
        "This computer cannot take part: {detail}. Choose another project.",
        "This computer cannot take part. Choose another project.",
    ),
    ErrorCode.NO_PROJECT: ("You have not joined a project. Choose one under Projects.",),
    ErrorCode.INTERNAL: (
        "Something went wrong inside Potluck. The log tells more under {report_id}. Try again.",
        "Something went wrong inside Potluck. Try again.",
    ),
}

SETTING_LABELS: Final[Mapping[str, str]] = {
    "cpu_share_percent": "Share of the processor",
    "pause_while_in_use": "Pause while I use the computer",
    "pause_on_battery": "Pause on battery",
    "upload_limit_bytes_per_second": "Upload limit",
    "download_limit_bytes_per_second": "Download limit",
    "display_name": "Name",
    "hub_url": "Hub address",
    "preset": "How much to use",
    "cpu_share_in_use_percent": "Share of the processor while I use the computer",
    "gpu_while_in_use": "Graphics card while I use the computer",
    "away_after_seconds": "Away after",
    "pause_on_energy_saver": "Pause while energy saver is on",
    "pause_full_screen": "Leave the graphics card to full-screen programs",
    "exclusive_apps": "Pause while these programs run",
    "foreign_cpu_percent": "Yield to other programs' use of the processor",
    "foreign_gpu_percent": "Yield to other programs' use of the graphics card",
    "memory_in_use_percent": "Memory while I use the computer",
    "memory_away_percent": "Memory while I am away",
    "memory_free_bytes": "Memory that stays free",
    "disk_limit_bytes": "Disk space for Potluck",
    "disk_free_bytes": "Disk space that stays free",
    "data_cap_bytes": "Data limit",
    "data_cap_days": "Days of the data limit",
    "pause_on_metered": "Pause on metered networks",
    "relay_only": "Hide this computer's address from others",
    "heat_target_cpu_celsius": "Processor temperature to hold",
    "heat_target_gpu_celsius": "Graphics card temperature to hold",
    "start_delay_seconds": "Wait after the start",
    "keep_awake": "Keep this computer awake while it trains",
    "compute_schedule": "Training hours",
    "network_schedule": "Network hours",
    "electricity_price_per_kwh": "Price of electricity",
}

PRESET_LABELS: Final[Mapping[str, str]] = {
    "quiet": "Quiet",
    "balanced": "Balanced",
    "full_when_away": "Full when away",
    "custom": "Custom",
}

LEVEL_LABELS: Final[Mapping[str, str]] = {
    "full": "Training",
    "reduced": "Training with less",
    "network_only": "Connected, not training",
    "stopped": "Paused",
}
"""A level of the governor in a table or chart."""

_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")


def reason_sentence(reason: Reason, translate: Translate | None = None) -> str:
    """Cause and next: "You are on battery. Resumes when plugged in."."""
    return f"{_choose(CAUSES[reason.code], reason.params, translate)} {_next(reason, translate)}"


def cause_sentence(reason: Reason, translate: Translate | None = None) -> str:
    """The cause alone: "You are on battery."."""
    return _choose(CAUSES[reason.code], reason.params, translate)


def state_label(state: RunState, translate: Translate | None = None) -> str:
    """One or two words without a full stop, for the tray and for tables."""
    return _translated(STATE_LABELS[state], translate)


def status_sentence(
    status: Status,
    session: SessionState | None = None,
    translate: Translate | None = None,
    time_text: Callable[[float], str] | None = None,
) -> str:
    """State, cause, next: "Paused. You are on battery. Resumes when plugged in.".

    `time_text` turns seconds since the epoch into a local time of day; without it no time is named.
    """
    parts = [_state_text(status.state, session, translate)]
    reasons = status.reasons or _implied(status.state, session)
    parts += [cause_sentence(reason, translate) for reason in reasons[:MAX_SHOWN_REASONS]]
    moves = any(reason.code is ReasonCode.USER_ACTIVE for reason in reasons)  # its end moves with every key pressed
    if status.resumes_at is not None and time_text is not None and not moves:
        parts.append(_fill(_translated(RESUMES_AT, translate), {"time": time_text(status.resumes_at)}))
    elif len(reasons) == 1:
        parts.append(_next(reasons[0], translate))
    elif reasons and status.state in (RunState.PAUSED, RunState.WAITING):
        parts.append(_translated(RESUMES_AFTER_ALL, translate))
    return " ".join(parts)


def problem_sentences(problem: Problem, translate: Translate | None = None) -> tuple[str, str]:
    """A problem card's title (no full stop) and its text, which ends with what to do."""
    return (
        _choose(PROBLEM_TITLES[problem.code], problem.params, translate),
        _choose(PROBLEM_TEXTS[problem.code], problem.params, translate),
    )


def action_label(action: ProblemAction, translate: Translate | None = None) -> str:
    """The word on a problem card's button; empty when there is no button."""
    return _translated(ACTION_LABELS[action], translate)


def error_sentence(code: ErrorCode, params: Mapping[str, Scalar], translate: Translate | None = None) -> str:
    """What was refused and why, ending with one action."""
    values = dict(params)
    name = values.get("name")
    if code is ErrorCode.BAD_SETTING and isinstance(name, str) and name in SETTING_LABELS:
        values["name"] = _translated(SETTING_LABELS[name], translate)
    return _choose(ERRORS[code], values, translate)


def all_templates() -> tuple[str, ...]:
    """Every text that `translate` may be given, for the window's translation files."""
    found: list[str] = [ALONE, RESUMES_AT, RESUMES_AFTER_ALL, *WHY]
    for labels in (STATE_LABELS.values(), WITH_ONE_PEER.values(), ACTION_LABELS.values(), SETTING_LABELS.values()):
        found += labels
    found += [*PRESET_LABELS.values(), *LEVEL_LABELS.values()]
    for templates in (
        *STATES.values(),
        *CAUSES.values(),
        *NEXT.values(),
        *PROBLEM_TITLES.values(),
        *PROBLEM_TEXTS.values(),
        *ERRORS.values(),
    ):
        found += templates
    return tuple(dict.fromkeys(text for text in found if text))


def _state_text(state: RunState, session: SessionState | None, translate: Translate | None) -> str:
    if session is None:
        return _choose(STATES[state], {}, translate)
    peers = sum(peer.connected for peer in session.peers)
    if peers == 0:
        plain = ALONE if state is RunState.TRAINING else STATES[state][-1]
        return _translated(plain, translate)
    if peers == 1 and state in WITH_ONE_PEER:
        return _translated(WITH_ONE_PEER[state], translate)
    return _choose(STATES[state], {"peers": peers}, translate)


def _implied(state: RunState, session: SessionState | None) -> tuple[Reason, ...]:
    code = IMPLIED_REASONS.get(state)
    if code is None:
        return ()
    if code is ReasonCode.FETCHING_MODEL and session is not None and session.catch_up_fraction is not None:
        return (Reason(code=code, params={"percent": round(100 * session.catch_up_fraction)}),)
    return (Reason(code=code),)


def _next(reason: Reason, translate: Translate | None) -> str:
    return _choose(NEXT[reason.code], reason.params, translate)


def _choose(templates: Templates, params: Mapping[str, Scalar], translate: Translate | None) -> str:
    values = {name: _shown(value) for name, value in params.items()}
    usable = {name for name, text in values.items() if text}
    for template in templates:
        if usable.issuperset(_PLACEHOLDER.findall(template)):
            return _fill(_translated(template, translate), values)
    return _fill(_translated(templates[-1], translate), values)


def _translated(template: str, translate: Translate | None) -> str:
    return translate(template) if translate is not None and template else template


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Not `str.format`: neither a value nor a slip in a translation can raise or reach into objects."""
    return _PLACEHOLDER.sub(lambda match: values.get(match.group(1), "?"), template)


def _shown(value: Scalar) -> str:
    """A parameter as it stands inside a sentence: one line, no full stop of its own, bounded."""
    if isinstance(value, float) and abs(value) >= 1e9:
        return f"{value:.3g}"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}".removesuffix(".0")
    text = " ".join(str(value).split()).rstrip(". ")
    printable = "".join(character for character in text if character.isprintable())
    return printable if len(printable) <= MAX_VALUE_CHARS else printable[: MAX_VALUE_CHARS - 1] + "…"
