"""The state tree as lines for a terminal, in the window's words. PURE."""

import datetime
from typing import Final

from engine.contract.link_words import end_text, reached_text
from engine.contract.snapshot import EngineState, KitState, LinkNote, ProjectCard, SessionState
from engine.contract.words import problem_sentences, status_sentence
from engine.kit.errors import sentence_of

SHOWN_ENDS: Final = 3
"""Of links that ended, the latest."""

_PROCESSORS: Final = {
    "cpu": "the processor",
    "cuda": "NVIDIA graphics cards",
    "rocm": "AMD graphics cards",
    "mps": "Apple graphics",
}
_PASSED_OVER: Final = {
    "driver_old": "its driver is too old for the kit that uses it. Update the driver, then: potluck kit get",
    "driver_unreadable": "its driver's version cannot be read, so the kit is for the processor.",
    "no_kit_for_card": "there is no kit that uses it, so the kit is for the processor.",
}


def status_text(state: EngineState, now: float) -> str:
    """A few lines: the sentence of state, the project, today, and what is wrong. `now`: seconds since the epoch."""

    def time_text(at: float) -> str:
        return clock_time(at, now)

    lines = [status_sentence(state.status, state.session, time_text=time_text)]
    if state.session is not None:
        lines += _session_lines(state.session, relay_only=state.settings.relay_only)
    if state.governor.override_until is not None:
        lines.append(f"Override   until {time_text(state.governor.override_until)}; what protects is not set aside")
    today = state.today
    lines.append(f"Today      {today.tokens_trained:,} tokens trained, {today.tokens_accepted:,} in shared rounds")
    where = state.hub.url or "none"
    lines.append(f"Hub        {where} ({'connected' if state.hub.connected else state.hub.detail or 'connecting'})")
    for problem in state.problems:
        title, text = problem_sentences(problem)
        lines.append(f"Problem    {title}. {text}")
    return "\n".join(lines)


def clock_time(at: float, now: float) -> str:
    """Hours and minutes here, with the day when it is not today's; both in seconds since the epoch."""
    when, today = (datetime.datetime.fromtimestamp(seconds).astimezone() for seconds in (at, now))
    time_of_day = f"{when:%H:%M}"
    return time_of_day if when.date() == today.date() else f"{when:%a} {when.day} {when:%b}, {time_of_day}"


def _session_lines(session: SessionState, *, relay_only: bool) -> list[str]:
    speed = number(session.my_tokens_per_second, "tokens/s")
    lines = [
        f"Project    {session.title}",
        f"Progress   step {session.global_step}, {session.rounds_committed} rounds shared here, "
        f"{session.rounds_discarded} discarded",
        f"Loss       {number(session.train_loss, 'nats', 3)} in training, "
        f"{number(session.held_out_loss, 'nats', 3)} on held-out text",
        f"This computer   {speed}, {session.my_samples} of {session.target_batch_samples} samples in this round",
    ]
    lines.append(f"Reached    {reached_text(session, relay_only=relay_only)}")
    for peer in session.peers:
        who = peer.name or peer.peer_id[:8]
        lines.append(f"Other      {who}, {peer.path}, step {'?' if peer.global_step is None else peer.global_step}")
    downs = [note for note in session.link_notes if note.what == "down"][-SHOWN_ENDS:]
    lines += [f"Lost       {note.peer_id[:8]} at {_time(note.at)}: {_end(note)}" for note in downs]
    return lines


def _time(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at).astimezone():%H:%M:%S}"


def _end(note: LinkNote) -> str:
    lost = f" {note.lost_bytes / 1e6:.1f} MB were on their way." if note.lost_bytes else ""
    return end_text(note.code) + lost


def projects_text(state: EngineState) -> str:
    """The catalogue, a project a paragraph."""
    if not state.projects:
        return f"The hub at {state.hub.url} lists no projects."
    return "\n\n".join(_project(card) for card in state.projects)


def kit_text(kit: KitState) -> str:
    """What there is of the training kit, and what is missing."""
    if kit.state == "included":
        return "Torch is installed with Potluck; no training kit is needed."
    size, done = kit.total_bytes / 1e9, kit.done_bytes / 1e9
    lines = {
        "missing": f"Not installed. It has {size:.1f} GB; {done:.1f} GB are here. Get it: potluck kit get",
        "paused": f"Paused: {done:.1f} of {size:.1f} GB are here. Go on: potluck kit get",
        "fetching": f"Being fetched: {done:.1f} of {size:.1f} GB.",
        "unpacking": "Being unpacked.",
        "testing": "Being tried on this computer.",
        "ready": f"Installed: torch {kit.version} for {_PROCESSORS.get(kit.computes_on, kit.computes_on)}.",
    }
    line = lines.get(kit.state) or sentence_of(kit.fault, kit.params)
    return line + (f" {kit.card}: {_PASSED_OVER[kit.passed_over]}" if kit.passed_over in _PASSED_OVER else "")


def measurement_text(state: EngineState) -> str:
    """What was measured of this computer, a device a line."""
    measured = state.measurement
    if not measured.state:
        return "This computer was not measured yet."
    lines = [f"Measurement {measured.state}{': ' + measured.detail if measured.detail else ''}"]
    for speed in measured.devices:
        memory = "" if speed.memory_bytes is None else f", {speed.memory_bytes / 1e6:,.0f} MB"
        result = speed.detail or f"{number(speed.tokens_per_second, 'tokens/s')}{memory}"
        lines.append(f"{speed.device:<10} {speed.name}  {result}".rstrip())
    if measured.memory_free_bytes is not None:
        lines.append(f"Memory     {measured.memory_free_bytes / 1e9:.1f} GB free")
    up, down = measured.upload_bytes_per_second, measured.download_bytes_per_second
    if up is not None or down is not None:
        lines.append(f"Line       at least {_rate(up)} up, {_rate(down)} down, as seen in training")
    for card in state.projects:
        if card.tokens_per_hour is not None:
            lines.append(f"{card.title}  about {card.tokens_per_hour:,.0f} tokens an hour while you are away")
    return "\n".join(lines)


def _rate(bytes_per_second: float | None) -> str:
    return "not yet" if bytes_per_second is None else f"{bytes_per_second / 1e6:.1f} MB/s"


def _project(card: ProjectCard) -> str:
    joined = " (joined)" if card.joined else ""
    lines = [
        f"{card.title}{joined}",
        f"  {card.summary}",
        f"  by {card.publisher}, {card.parameter_count:,} parameters, licence {card.licence}",
        f"  {card.peers_now if card.peers_now is not None else '?'} computers now, "
        f"{card.tokens_verified if card.tokens_verified is not None else '?'} verified tokens",
        f"  potluck join {card.name}",
    ]
    if card.tokens_per_hour is not None:
        lines.append(f"  This computer would do about {card.tokens_per_hour:,.0f} tokens an hour")
    if card.unusable_because:
        lines.append(f"  Not on this computer: {card.unusable_because}")
    return "\n".join(lines)


def number(value: float | None, unit: str, digits: int = 0) -> str:
    """A number with its unit, or "not yet"."""
    return "not yet" if value is None else f"{value:,.{digits}f} {unit}"
