"""Commands that ask the running engine: one request, one answer in words."""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from engine.contract import commands as c
from engine.contract.errors import ControlError
from engine.contract.settings import parsed, shown
from engine.contract.snapshot import EngineState
from engine.contract.words import error_sentence
from engine.control.client import ControlClient, EngineGone, connect
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.runtime.status_text import kit_text, measurement_text, projects_text, status_text

POLL_SECONDS: Final = 0.25


def run_request(paths: Paths, options: argparse.Namespace) -> int:
    """Carry out `options.command`.

    Raises:
        UserError: no engine answers, or it refused.
    """
    return asyncio.run(_request(paths, options))


async def _request(paths: Paths, options: argparse.Namespace) -> int:
    try:
        async with await connect(paths) as client:
            text = await _ASK[options.command](client, options)
    except ControlError as error:
        raise UserError(error_sentence(error.code, error.params)) from error
    except (EngineGone, TimeoutError) as error:
        raise UserError("The engine ended before it answered.", "Look with `potluck status`.") from error
    sys.stdout.write(text + "\n")
    return 0


async def _state(client: ControlClient) -> EngineState:
    return msgspec.convert(await client.request(c.GetState()), EngineState)


async def _join(client: ControlClient, options: argparse.Namespace) -> str:
    wanted: str = options.project
    link = wanted.startswith("potluck:")
    await client.request(c.OpenLink(link=wanted) if link else c.Join(project=wanted))
    return status_text(await _state(client), time.time())


async def _leave(client: ControlClient, options: argparse.Namespace) -> str:
    await client.request(c.Leave(when="now" if options.now else "after_round"))
    return status_text(await _state(client), time.time())


async def _pause(client: ControlClient, options: argparse.Namespace) -> str:
    await client.request(c.Pause(seconds=options.duration))
    return status_text(await _state(client), time.time())


async def _resume(client: ControlClient, options: argparse.Namespace) -> str:
    await client.request(c.Resume())
    return status_text(await _state(client), time.time())


async def _override(client: ControlClient, options: argparse.Namespace) -> str:
    off = options.duration is None
    await client.request(c.CancelOverride() if off else c.Override(seconds=options.duration))
    return "\n".join(await _why_lines(client))


async def _why(client: ControlClient, options: argparse.Namespace) -> str:
    return "\n".join(await _why_lines(client))


async def _why_lines(client: ControlClient) -> list[str]:
    return msgspec.convert(await client.request(c.Why()), list[str])


async def _measure(client: ControlClient, options: argparse.Namespace) -> str:
    """Starts it and waits for its end; Ctrl-C cancels it."""
    if options.cancel:
        await client.request(c.CancelMeasure())
        return measurement_text(await _state(client))
    await client.request(c.MeasureMachine())
    began = False
    try:
        while True:
            state = await _state(client)
            began = began or state.measurement.state == "running"
            if began and state.measurement.state != "running":
                return measurement_text(state)
            await asyncio.sleep(POLL_SECONDS)
    except asyncio.CancelledError:
        await client.request(c.CancelMeasure())
        raise


async def _status(client: ControlClient, options: argparse.Namespace) -> str:
    state = await _state(client)
    if options.json:
        return msgspec.json.format(msgspec.json.encode(state), indent=2).decode()
    return status_text(state, time.time())


async def _projects(client: ControlClient, options: argparse.Namespace) -> str:
    await client.request(c.RefreshHub())
    return projects_text(await _state(client))


async def _stop(client: ControlClient, options: argparse.Namespace) -> str:
    await client.request(c.StopEngine())
    return "Stopping. The round in progress is finished first."


async def _set(client: ControlClient, options: argparse.Namespace) -> str:
    await client.request(c.ChangeSettings(changes={options.name: parsed(options.name, options.value)}))
    kept = getattr((await _state(client)).settings, options.name)
    return f"{options.name} is now {shown(kept)}."


async def _kit(client: ControlClient, options: argparse.Namespace) -> str:
    if options.action == "get":
        await client.request(c.GetKit())
    elif options.action == "pause":
        await client.request(c.PauseKit())
    return kit_text((await _state(client)).kit)


_ASK: Final[dict[str, Callable[[ControlClient, argparse.Namespace], Awaitable[str]]]] = {
    "join": _join,
    "leave": _leave,
    "pause": _pause,
    "resume": _resume,
    "override": _override,
    "why": _why,
    "measure": _measure,
    "kit": _kit,
    "status": _status,
    "projects": _projects,
    "stop": _stop,
    "set": _set,
}
