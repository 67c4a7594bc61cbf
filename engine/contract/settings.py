"""Settings with their bounds: one declaration for the engine, the window and the command line."""

import contextlib
from typing import Any, Final

import msgspec

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.snapshot import Settings

MIN_CPU_SHARE_PERCENT: Final = 5
MAX_CPU_SHARE_PERCENT: Final = 100
MIN_UPLOAD_LIMIT_BYTES_PER_SECOND: Final = 8 * 1024
MAX_UPLOAD_LIMIT_BYTES_PER_SECOND: Final = 10 * 1024**3
MAX_DISPLAY_NAME_CHARS: Final = 40
MAX_HUB_URL_CHARS: Final = 300


MUST: Final[dict[str, str]] = {
    "cpu_share_percent": f"must be a whole number from {MIN_CPU_SHARE_PERCENT} to {MAX_CPU_SHARE_PERCENT}",
    "pause_while_in_use": "must be true or false",
    "pause_on_battery": "must be true or false",
    "upload_limit_bytes_per_second": (
        f"must be a whole number of bytes from {MIN_UPLOAD_LIMIT_BYTES_PER_SECOND} "
        f"to {MAX_UPLOAD_LIMIT_BYTES_PER_SECOND}, or none"
    ),
    "display_name": f"must be text of at most {MAX_DISPLAY_NAME_CHARS} printable characters",
    "hub_url": "must begin with http:// or https://",
}
"""What each setting's value has to be."""

_WORDS: Final[dict[str, bool | None]] = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def changed(settings: Settings, changes: dict[str, str | int | float | bool | None]) -> Settings:
    """`settings` with `changes` applied.

    Raises:
        ControlError: BAD_SETTING, naming the setting and what is wrong with its value.
    """
    merged = msgspec.structs.asdict(settings)
    for name, value in changes.items():
        kind = _kind_of(name)
        try:
            merged[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise _refusal(name) from error
    result = Settings(**merged)
    _check(result)
    return result


def parsed(name: str, text: str) -> str | int | bool | None:
    """A setting's value as it is written on a command line, read as the setting's own type.

    Raises:
        ControlError: BAD_SETTING, naming the setting and what its value must be.
    """
    kind = _kind_of(name)
    if kind is str:
        return text
    candidates: list[Any] = [_WORDS[text.lower()]] if text.lower() in _WORDS else []
    with contextlib.suppress(ValueError):
        candidates.append(int(text))
    with contextlib.suppress(ValueError, OverflowError):
        if (number := float(text)).is_integer():  # 1e6
            candidates.append(int(number))
    for candidate in candidates:
        with contextlib.suppress(msgspec.ValidationError):
            value: int | bool | None = msgspec.convert(candidate, kind)
            return value
    raise _refusal(name)


def shown(value: str | int | bool | None) -> str:
    """A setting's value as `parsed` reads it; an empty text as the word for that."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value) or "empty"


def _kind_of(name: str) -> Any:
    for field in msgspec.structs.fields(Settings):
        if field.name == name:
            return field.type
    raise ControlError(ErrorCode.BAD_SETTING, name=name[:60], detail="there is no such setting")


def _check(settings: Settings) -> None:
    if not MIN_CPU_SHARE_PERCENT <= settings.cpu_share_percent <= MAX_CPU_SHARE_PERCENT:
        raise _refusal("cpu_share_percent")
    limit = settings.upload_limit_bytes_per_second
    if limit is not None and not MIN_UPLOAD_LIMIT_BYTES_PER_SECOND <= limit <= MAX_UPLOAD_LIMIT_BYTES_PER_SECOND:
        raise _refusal("upload_limit_bytes_per_second")
    if len(settings.display_name) > MAX_DISPLAY_NAME_CHARS or not settings.display_name.isprintable():
        raise _refusal("display_name")
    url = settings.hub_url
    if len(url) > MAX_HUB_URL_CHARS:
        raise ControlError(
            ErrorCode.BAD_SETTING, name="hub_url", detail=f"must be at most {MAX_HUB_URL_CHARS} characters"
        )
    if url and not url.startswith(("http://", "https://")):
        raise _refusal("hub_url")


def _refusal(name: str) -> ControlError:
    return ControlError(ErrorCode.BAD_SETTING, name=name, detail=MUST[name])
