"""From a request to its reply: the command decoded strictly, the handler called, errors turned into codes."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from engine.contract.codec import Reply, Request, encode
from engine.contract.commands import COMMANDS, MAX_PAUSE_SECONDS, Command, GetState, Pause, Ping
from engine.contract.errors import ControlError, ErrorBody, ErrorCode
from engine.contract.snapshot import EngineState

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 120.0
MAX_TEXT_CHARS: Final = 2000
"""No text in a command is longer."""


@dataclass(frozen=True, slots=True)
class Face:
    """A window, command line or other client that was let in."""

    face_id: int
    kind: str  # what it calls itself
    wants_samples: bool
    pid: int = 0  # 0: it did not say


Handler: TypeAlias = Callable[[Command, Face], Awaitable[Any]]
"""Carries out a command; its result must be a struct or plain data. Raises ControlError to refuse."""


def parse_command(request: Request) -> Command:
    """The command that a request names, with its fields' types checked and texts bounded. Unknown fields are ignored.

    Raises:
        ControlError: UNKNOWN_METHOD, or BAD_REQUEST that names the field.
    """
    command_type = COMMANDS.get(request.method)
    if command_type is None:
        raise ControlError(ErrorCode.UNKNOWN_METHOD, method=request.method[:60])
    try:
        command = msgspec.convert(request.params, command_type)
    except msgspec.ValidationError as error:
        raise _bad_field(request.method, str(error)) from error
    for name in command.__struct_fields__:
        value = getattr(command, name)
        for what, part in (value if isinstance(value, dict) else {name: value}).items():
            if any(len(text) > MAX_TEXT_CHARS for text in _texts(part)):
                detail = f"the {what[:60].replace('_', ' ')} is longer than {MAX_TEXT_CHARS} characters"
                raise ControlError(ErrorCode.BAD_REQUEST, detail=detail)
    if isinstance(command, Pause) and command.seconds is not None and not 0 < command.seconds <= MAX_PAUSE_SECONDS:
        raise _bad_field(request.method, f"must be more than 0 and at most {MAX_PAUSE_SECONDS} - at `$.seconds`")
    return command


async def outcome(request: Request, face: Face, handler: Handler, state: Callable[[], EngineState]) -> Reply:
    """Carry out a request within REQUEST_SECONDS. `ping` and `state.get` are answered here; all else by `handler`.

    Never raises but for cancellation: an unexpected error becomes INTERNAL with the number of its log line.
    """
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            result = await _carry_out(parse_command(request), face, handler, state)
        reply = Reply(id=request.id, result=msgspec.to_builtins(result))
        encode(reply)  # a reply that cannot travel is a fault of this command, found here
    except ControlError as error:
        return Reply(id=request.id, error=ErrorBody(code=error.code, params=error.params))
    except Exception:  # Border: a fault in one command must end neither the link nor the engine.
        report_id = secrets.token_hex(4)
        log.exception("request %s failed; report %s", request.method[:60], report_id)
        return Reply(id=request.id, error=ErrorBody(code=ErrorCode.INTERNAL, params={"report_id": report_id}))
    return reply


async def _carry_out(command: Command, face: Face, handler: Handler, state: Callable[[], EngineState]) -> Any:
    if isinstance(command, Ping):
        return None
    if isinstance(command, GetState):
        return state()
    return await handler(command, face)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _bad_field(method: str, detail: str) -> ControlError:
    return ControlError(ErrorCode.BAD_REQUEST, detail=f"{method}: {detail}"[:300])
