"""A pytest plugin of checks that hold for every test.

- A record logged at WARNING or above that the test did not announce fails it, and so does an announced one that never
  came. Announce with the fixture `expect_log`.
- An asyncio task that is still pending after an async test and its async fixtures fails it.
- Traffic to anything but loopback or a Unix socket raises, and fails the test even where the code swallowed it.
- With POTLUCK_NO_SKIP=1 a skipped test or module counts as a failure.
"""

import asyncio
import gc
import ipaddress
import logging
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
import pytest_asyncio

NO_SKIP_VARIABLE = "POTLUCK_NO_SKIP"


@dataclass(slots=True)
class _Expectation:
    prefix: str
    level: int
    match: str | None
    seen: int = 0

    def covers(self, record: logging.LogRecord) -> bool:
        named = record.name == self.prefix or record.name.startswith(self.prefix + ".")
        if not named or record.levelno != self.level:
            return False
        return self.match is None or re.search(self.match, record.getMessage()) is not None

    def __str__(self) -> str:
        matching = f" matching {self.match!r}" if self.match is not None else ""
        return f"{logging.getLevelName(self.level)} from {self.prefix}{matching}"


class _Watch(logging.Handler):
    """Keeps every record from WARNING up, from any thread, whatever handlers the code under test sets."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def drain(self) -> list[logging.LogRecord]:
        records, self.records = self.records, []
        return records


class ExpectLog(Protocol):
    """Announce one kind of record: it must come at least once, at exactly `level`, its message matching `match`.

    `logger_prefix` is a logger's name or that of a parent: "engine.store" covers "engine.store.upgrade".
    """

    def __call__(self, logger_prefix: str, level: int = logging.WARNING, match: str | None = None) -> None: ...


_watch = _Watch()
_expected_key = pytest.StashKey[list[_Expectation]]()


class OutsideTraffic(RuntimeError):
    """A test tried to reach something that is not this computer."""


_outside: list[str] = []


def _describe(record: logging.LogRecord) -> str:
    text = f"{record.levelname} {record.name}: {record.getMessage()}"
    if record.exc_info and record.exc_info[0]:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    return text


@pytest.fixture
def expect_log(request: pytest.FixtureRequest) -> ExpectLog:
    """See `ExpectLog`."""
    expected = request.node.stash.setdefault(_expected_key, [])

    def announce(logger_prefix: str, level: int = logging.WARNING, match: str | None = None) -> None:
        expected.append(_Expectation(logger_prefix, level, match))

    return announce


@pytest.fixture(autouse=True)
def _announced_logs_only(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.node.get_closest_marker("asyncio"):
        gc.collect()  # so that "exception was never retrieved" is logged in the test that caused it
    expected = request.node.stash.get(_expected_key, [])
    unannounced = []
    for record in _watch.drain():
        covering = [expectation for expectation in expected if expectation.covers(record)]
        for expectation in covering:
            expectation.seen += 1
        if not covering:
            unannounced.append(_describe(record))
    problems = [f"logged without announcement: {text}" for text in unannounced]
    problems += [f"announced but never logged: {expectation}" for expectation in expected if not expectation.seen]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture(autouse=True)
def _loopback_only() -> Iterator[None]:
    _outside.clear()
    yield
    if _outside:
        pytest.fail("tried to reach the outside: " + ", ".join(_outside), pytrace=False)


@pytest_asyncio.fixture
async def _no_task_left() -> AsyncIterator[None]:
    """First fixture of every async test, so the last to end: after the async fixtures, before the loop closes."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        names = "\n".join(sorted(repr(task) for task in left))
        pytest.fail(f"{len(left)} tasks still pending after the test:\n{names}", pytrace=False)


def pytest_itemcollected(item: pytest.Item) -> None:
    if pytest_asyncio.is_async_test(item):
        # What is set up first is torn down last: the logs are judged when even the loop has closed.
        item.fixturenames.remove("_announced_logs_only")
        item.fixturenames[:0] = ["_announced_logs_only", "_no_task_left"]


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # imported modules live to the end; collections after tests need not walk them


# Skips


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and os.environ.get(NO_SKIP_VARIABLE) == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped, and {NO_SKIP_VARIABLE}=1 allows no skips: {report.longrepr}"


# Sockets


def _is_loopback(host: object) -> bool:
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if text in ("localhost", ""):
        return True
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _check_address(sock: socket.socket, address: Any, what: str) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return  # Unix sockets and the like stay on this computer
    if not (isinstance(address, tuple) and address and _is_loopback(address[0])):
        _refuse_traffic(f"{what} {address!r}")


def _refuse_traffic(what: str) -> None:
    text = f"{what} (thread {threading.current_thread().name})"
    _outside.append(text)
    raise OutsideTraffic(f"tests may only use loopback: {text}")


def _guard_sockets(patch: pytest.MonkeyPatch) -> None:
    real = socket.socket
    connect, connect_ex, sendto = real.connect, real.connect_ex, real.sendto
    getaddrinfo = socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any, /) -> None:
        _check_address(self, address, "connect")
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any, /) -> int:
        _check_address(self, address, "connect_ex")
        return connect_ex(self, address)

    def guarded_sendto(self: socket.socket, data: Any, *rest: Any) -> int:
        _check_address(self, rest[-1], "sendto")
        return sendto(self, data, *rest)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> list[Any]:
        if host is not None and not _is_loopback(host) and not _is_literal(host):
            _refuse_traffic(f"look up {host!r}")
        return getaddrinfo(host, *args, **kwargs)

    replacements: dict[str, Callable[..., Any]] = {
        "connect": guarded_connect,
        "connect_ex": guarded_connect_ex,
        "sendto": guarded_sendto,
    }
    if hasattr(real, "sendmsg"):
        sendmsg = real.sendmsg

        def guarded_sendmsg(self: socket.socket, *args: Any) -> int:
            if len(args) > 3 and args[3] is not None:
                _check_address(self, args[3], "sendmsg")
            return sendmsg(self, *args)

        replacements["sendmsg"] = guarded_sendmsg
    for name, replacement in replacements.items():
        patch.setattr(real, name, replacement)
    patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)


def _is_literal(host: object) -> bool:
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


_patch = pytest.MonkeyPatch()


def pytest_configure() -> None:
    logging.getLogger().addHandler(_watch)
    _guard_sockets(_patch)


def pytest_unconfigure() -> None:
    _patch.undo()
    logging.getLogger().removeHandler(_watch)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    result = yield
    left = _watch.drain()
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("\nlogged after the last test:\n" + "\n".join(_describe(record) for record in left))  # noqa: T201
    return result
