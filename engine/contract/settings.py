"""Settings with their bounds: one declaration for the engine, the window and the command line."""

from typing import Final

import msgspec

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.snapshot import Settings

MIN_CPU_SHARE_PERCENT: Final = 5
MAX_CPU_SHARE_PERCENT: Final = 100
MIN_UPLOAD_LIMIT_BYTES_PER_SECOND: Final = 8 * 1024
MAX_UPLOAD_LIMIT_BYTES_PER_SECOND: Final = 10 * 1024**3
MAX_DISPLAY_NAME_CHARS: Final = 40
MAX_HUB_URL_CHARS: Final = 300


def changed(settings: Settings, changes: dict[str, str | int | float | bool | None]) -> Settings:
    """`settings` with `changes` applied.

    Raises:
        ControlError: BAD_SETTING, naming the setting and what is wrong with its value.
    """
    merged = msgspec.structs.asdict(settings)
    for name, value in changes.items():
        if name not in merged:
            raise ControlError(ErrorCode.BAD_SETTING, name=name[:60], detail="there is no such setting")
        merged[name] = value
    try:
        result = msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise ControlError(ErrorCode.BAD_SETTING, name=", ".join(changes)[:60], detail=str(error)[:200]) from error
    _check(result)
    return result


def _check(settings: Settings) -> None:
    if not MIN_CPU_SHARE_PERCENT <= settings.cpu_share_percent <= MAX_CPU_SHARE_PERCENT:
        _refuse("cpu_share_percent", f"must be {MIN_CPU_SHARE_PERCENT} to {MAX_CPU_SHARE_PERCENT}")
    limit = settings.upload_limit_bytes_per_second
    if limit is not None and not MIN_UPLOAD_LIMIT_BYTES_PER_SECOND <= limit <= MAX_UPLOAD_LIMIT_BYTES_PER_SECOND:
        _refuse("upload_limit_bytes_per_second", f"must be at least {MIN_UPLOAD_LIMIT_BYTES_PER_SECOND}, or none")
    if len(settings.display_name) > MAX_DISPLAY_NAME_CHARS or not settings.display_name.isprintable():
        _refuse("display_name", f"must be at most {MAX_DISPLAY_NAME_CHARS} printable characters")
    url = settings.hub_url
    if url and (len(url) > MAX_HUB_URL_CHARS or not url.startswith(("http://", "https://"))):
        _refuse("hub_url", "must begin with http:// or https://")


def _refuse(name: str, detail: str) -> None:
    raise ControlError(ErrorCode.BAD_SETTING, name=name, detail=detail)
