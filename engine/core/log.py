"""One log for a process: topic loggers, short lines on the console, bounded files, no secrets.

Modules write to `logging.getLogger(__name__)`; the topic is the module's name without `engine.`. Times are UTC.
"""

import atexit
import logging
import logging.handlers
import re
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

from engine.core.paths import Paths

MAX_FILE_BYTES: Final = 2 * 1024 * 1024
KEPT_FILES: Final = 4
"""Besides the one being written: a process's log never takes more than (KEPT_FILES + 1) * MAX_FILE_BYTES."""

MAX_EARLY_LINES: Final = 1000
MAX_MESSAGE_CHARS: Final = 8000
MASK: Final = "[hidden]"
MIN_SECRET_CHARS: Final = 8

_SECRET_NAMES: Final = r"(?:token|secret|passw(?:or)?d|credential|api[_-]?key|private[_-]?key)"  # noqa: S105
_SECRET_PATTERNS: Final = (
    # token=..., "token": "...", 'token': b'...', --token ...; a lone "token" in prose is left alone
    re.compile(rf"(?i)({_SECRET_NAMES}[\"']?\s*[=:]\s*b?[\"']?)([^\s\"'&,;)}}\]]+)"),
    re.compile(r"(?i)(--token[ =])(\S+)"),
    re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?)([^\s\"']+)"),
    re.compile(r"(?i)(\bbearer\s+)([A-Za-z0-9._~+/=-]{8,})"),
    re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]*:)([^\s/@]+)(?=@)"),
)
_LINE_BREAKERS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
_ESCAPES: Final = _LINE_BREAKERS | {9: "\t", 10: "\\n", 13: "\\r"}

_secrets: set[str] = set()


def register_secret(value: str) -> None:
    """Never let `value` appear in a line of this process's log. Short ones are refused: they would hide prose.

    Raises:
        ValueError: shorter than MIN_SECRET_CHARS.
    """
    if len(value) < MIN_SECRET_CHARS:
        raise ValueError(f"a secret has at least {MIN_SECRET_CHARS} characters")
    _secrets.add(value)


def mask(text: str) -> str:
    """`text` with registered secrets, and values that are named like secrets, replaced by MASK."""
    for secret in _secrets:
        text = text.replace(secret, MASK)
    for pattern in _SECRET_PATTERNS:
        text = pattern.sub(lambda found: found.group(1) + MASK, text)
    return text


class _Formatter(logging.Formatter):
    """Masks the whole of a line, its traceback too; text from elsewhere cannot begin a line of its own."""

    def __init__(self, line: str, time_of_day: str) -> None:
        super().__init__(line, time_of_day)
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        record.topic = record.name.removeprefix("engine.")
        record.mark = f"{record.levelname} " if record.levelno >= logging.WARNING else ""
        record.message = record.message[:MAX_MESSAGE_CHARS].translate(_ESCAPES)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


def _file_formatter() -> logging.Formatter:
    line = "%(asctime)s.%(msecs)03dZ %(levelname)s %(process)d %(topic)s: %(message)s"
    return _Formatter(line, "%Y-%m-%dT%H:%M:%S")


def _console_formatter() -> logging.Formatter:
    return _Formatter("%(asctime)sZ %(mark)s%(topic)s: %(message)s", "%H:%M:%S")


class _FileHandler(logging.handlers.RotatingFileHandler):
    """Says once, on the console, that the file cannot be written; the program goes on."""

    _failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)  # a fault of ours, such as a wrong format string
        elif not self._failed:
            self._failed = True
            _complain(f"The log file {self.baseFilename} cannot be written: {error.strerror or error}.")


def _complain(sentence: str) -> None:
    if sys.stderr is not None:  # a windowed program on Windows has none
        sys.stderr.write(sentence + "\n")


class _Early(logging.Handler):
    """Keeps what is logged before anyone knows where the log goes."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.records: deque[logging.LogRecord] = deque(maxlen=MAX_EARLY_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


_early: _Early | None = None


def hold_early_lines(level: int = logging.INFO) -> None:
    """Keep lines until `configure`; if the process ends before that, its warnings go to the console."""
    global _early
    if _early is not None:
        return
    _early = _Early()
    root = logging.getLogger()
    root.addHandler(_early)
    root.setLevel(min(level, root.level or level))
    atexit.register(_give_up_holding)


def _release_early_lines() -> list[logging.LogRecord]:
    global _early
    if _early is None:
        return []
    early, _early = _early, None
    logging.getLogger().removeHandler(early)
    atexit.unregister(_give_up_holding)
    return list(early.records)


def _give_up_holding() -> None:
    formatter = _console_formatter()
    for record in _release_early_lines():
        if record.levelno >= logging.WARNING:
            _complain(formatter.format(record))


class LogSetup:
    """The handlers that `configure` set; closing it takes them away. Also a context manager."""

    def __init__(self, handlers: list[logging.Handler], file: Path | None, levels_before: dict[str, int]) -> None:
        self.file = file
        self._handlers = handlers
        self._levels_before = levels_before

    def close(self) -> None:
        """Flush, close, and put the levels back. Safe to repeat."""
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
            handler.close()
        self._handlers = []
        for name, level in self._levels_before.items():
            logging.getLogger(name).setLevel(level)
        self._levels_before = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def configure(
    paths: Paths,
    level: int = logging.INFO,
    console: bool = True,
    *,
    name: str = "engine",
    levels: Mapping[str, int] | None = None,
    stream: TextIO | None = None,
) -> LogSetup:
    """Send the process's log to `<log_dir>/<name>.log` and, with `console`, to `stream` (standard error).

    `name` is the process's own: two processes must not rotate one file. `levels` sets loggers apart from `level`, as in
    {"engine.transport": logging.DEBUG}. Lines held by `hold_early_lines` come first. A folder that cannot be written is
    a warning, not an error: the log then goes to the console, whatever `console` says.
    """
    handlers: list[logging.Handler] = []
    complaint = ""
    file: Path | None = paths.log_dir / f"{name}.log"
    try:
        handlers.append(_open_file(paths.log_dir / f"{name}.log"))
    except OSError as error:
        file, complaint = None, f"No log file: {error.strerror or error} ({paths.log_dir}). The log goes here instead."
    console_stream = stream or sys.stderr
    if (console or file is None) and console_stream is not None:
        console_handler = logging.StreamHandler(console_stream)
        console_handler.setFormatter(_console_formatter())
        handlers.append(console_handler)
    before = _set_levels({"": level, **_QUIET, **(levels or {})})
    for record in _release_early_lines():
        if record.levelno >= logging.getLogger(record.name).getEffectiveLevel():
            for handler in handlers:
                handler.handle(record)
    for handler in handlers:
        logging.getLogger().addHandler(handler)
    if complaint:
        logging.getLogger(__name__).warning("%s", complaint)
    return LogSetup(handlers, file, before)


_QUIET: Final[dict[str, int]] = {
    # These log each connection, request or candidate at INFO.
    "aioice": logging.WARNING,
    "aiohttp.access": logging.WARNING,
    "alembic": logging.WARNING,
}


def _open_file(path: Path) -> logging.Handler:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handler = _FileHandler(path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8", errors="replace")
    handler.setFormatter(_file_formatter())
    return handler


def _set_levels(levels: Mapping[str, int]) -> dict[str, int]:
    before = {}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        before[name] = logger.level
        logger.setLevel(level)
    return before
