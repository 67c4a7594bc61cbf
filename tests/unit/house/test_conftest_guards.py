"""The guards fail what they are there to fail. One inner pytest run, in its own process, holds all cases."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

CASES = """
import asyncio, logging, socket, threading
import pytest

log = logging.getLogger("engine.sample.part")

def test_bad_unannounced_warning():
    log.warning("surprise")

def test_bad_warning_in_thread_with_handlers_removed():
    thread = threading.Thread(target=lambda: log.error("surprise"))
    thread.start()
    thread.join()

def test_bad_announced_never_logged(expect_log):
    expect_log("engine.sample")

def test_bad_other_level(expect_log):
    expect_log("engine.sample", logging.WARNING)
    log.warning("one")
    log.error("two")

def test_bad_other_text(expect_log):
    expect_log("engine.sample", match="disk")
    log.warning("memory")

def test_bad_name_that_only_begins_alike(expect_log):
    expect_log("engine.sam")
    log.warning("one")

def test_good_announced(expect_log):
    expect_log("engine.sample", match="full$")
    log.warning("disk full")
    log.warning("disk still full")
    log.info("not counted")

def test_bad_connect():
    with socket.socket() as sock:
        sock.connect(("192.0.2.1", 9))

def test_bad_connect_swallowed():
    with socket.socket() as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except Exception:
            pass

def test_bad_sendto():
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("192.0.2.1", 9))

def test_bad_lookup():
    socket.getaddrinfo("potluck.invalid", 80)

async def test_bad_asyncio_connect():
    await asyncio.open_connection("192.0.2.1", 9)

async def test_bad_asyncio_datagram():
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    try:
        transport.sendto(b"x", ("192.0.2.1", 9))
    finally:
        transport.close()

async def test_good_loopback(tmp_path):
    async with await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
    receiver, sender = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.bind(("127.0.0.1", 0))
        sender.sendto(b"x", receiver.getsockname())
        assert receiver.recv(10) == b"x"

async def test_bad_task_left():
    test_bad_task_left.task = asyncio.create_task(asyncio.Event().wait())

@pytest.fixture
async def careless():
    yield
    careless.task = asyncio.create_task(asyncio.Event().wait())

async def test_bad_task_left_by_fixture(careless):
    pass

@pytest.fixture
async def careful():
    task = asyncio.create_task(asyncio.Event().wait())
    yield
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

async def test_good_task_of_fixture(careful):
    pass

async def test_bad_logged_while_the_loop_closes():
    async def generate():
        try:
            yield
        finally:
            log.warning("surprise")
    generator = generate()
    await anext(generator)
    test_bad_logged_while_the_loop_closes.kept = generator

def test_good_after_it():
    pass

async def test_bad_exception_never_retrieved():
    async def fail():
        raise ValueError("lost")
    task = asyncio.create_task(fail())
    await asyncio.wait([task])

def test_bad_skip():
    pytest.skip("not today")
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Each case's report lines' outcomes."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "tests.helpers.guards", "-p", "no:randomly", "-o"]
    command += ["asyncio_mode=auto", "-p", "no:cacheprovider", str(folder), "--rootdir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POTLUCK_NO_SKIP": "1", "PYTEST_ADDOPTS": ""}
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=60, check=False)
    found: dict[str, set[str]] = {}
    for line in run.stdout.splitlines():
        if line.startswith("test_cases.py::") and len(line.split()) > 1:
            name, outcome = line.split("::")[1].split()[:2]
            found.setdefault(name, set()).add(outcome)
    assert found, run.stdout + run.stderr
    assert run.returncode == 1
    return found


def _names(kind: str) -> list[str]:
    return re.findall(rf"def (test_{kind}_\w+)", CASES)


@pytest.mark.parametrize("name", _names("bad"))
def test_fails(name: str, outcomes: dict[str, set[str]]) -> None:
    assert outcomes[name] & {"FAILED", "ERROR"}


@pytest.mark.parametrize("name", _names("good"))
def test_passes(name: str, outcomes: dict[str, set[str]]) -> None:
    assert outcomes[name] == {"PASSED"}
