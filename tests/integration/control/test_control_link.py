import asyncio
import contextlib
import logging
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.contract.codec import (
    MAX_LINE_BYTES,
    EngineMessage,
    FaceMessage,
    Hello,
    Patch,
    Refused,
    Reply,
    Request,
    SnapshotMessage,
    Welcome,
    decode_engine,
    encode,
)
from engine.contract.commands import Command, Join, Pause, Ping, Resume
from engine.contract.errors import ControlError, ErrorCode
from engine.contract.reasons import RunState
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, ProjectCard, Status, Today
from engine.contract.version import CONTRACT_VERSION
from engine.control import link
from engine.control.auth import new_token
from engine.control.client import EngineGone, EngineNotRunning, connect
from engine.control.diff import apply
from engine.control.dispatch import Face
from engine.control.endpoint import Endpoint, EngineLock, find_engine, read_endpoint, write_endpoint
from engine.control.publisher import StatePublisher
from engine.control.server import MAX_FACES, ControlServer
from engine.core.errors import UserError
from engine.core.paths import Paths

pytestmark = pytest.mark.integration


class Engine:
    """A control server with a handler that the test steers."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.token = new_token()
        self.commands: list[Command] = []
        self.faces: tuple[Face, ...] = ()
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = 0
        self.most_running = 0
        self.changed = asyncio.Condition()
        self.publisher = StatePublisher(
            EngineState(
                engine=EngineInfo(
                    version="0.1.0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/d"
                ),
                status=Status(state=RunState.IDLE),
                hub=HubStatus(url="http://127.0.0.1", connected=False),
            )
        )
        self.server = ControlServer(
            paths, self.token, self.handle, self.publisher, started_at=5.0, on_faces=self.on_faces
        )

    def on_faces(self, faces: tuple[Face, ...]) -> None:
        self.faces = faces

    async def handle(self, command: Command, face: Face) -> Any:
        self.commands.append(command)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        async with self.changed:
            self.changed.notify_all()
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        if isinstance(command, Join) and command.project == "missing":
            raise ControlError(ErrorCode.UNKNOWN_PROJECT, project=command.project)
        if isinstance(command, Join) and command.project == "fault":
            raise RuntimeError("a fault of ours")
        return {"done": command.method}


class Raw:
    """A face that says exactly what the test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, message: FaceMessage | bytes) -> None:
        self.writer.write(message if isinstance(message, bytes) else encode(message))

    async def hear(self) -> EngineMessage | None:
        async with asyncio.timeout(10):
            try:
                return decode_engine(await self.reader.readuntil(b"\n"))
            except (asyncio.IncompleteReadError, ConnectionError):
                return None

    async def refused(self) -> ErrorCode:
        message = await self.hear()
        assert isinstance(message, Refused)
        assert await self.hear() is None
        return message.error.code


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "profile")
    paths.ensure()
    return paths


@pytest.fixture
async def engine(paths: Paths) -> AsyncIterator[Engine]:
    engine = Engine(paths)
    with EngineLock(paths):
        async with engine.server:
            yield engine


@pytest.fixture
async def raws(engine: Engine) -> AsyncIterator[Any]:
    opened: list[Raw] = []

    async def open_one(hello: bool = False, **fields: Any) -> Raw:
        reader, writer = await asyncio.open_unix_connection(str(engine.paths.socket_file), limit=8 * MAX_LINE_BYTES)
        raw = Raw(reader, writer)
        opened.append(raw)
        if hello:
            raw.say(hello_of(engine, **fields))
            assert isinstance(await raw.hear(), Welcome)
        return raw

    yield open_one
    for raw in opened:
        raw.writer.close()
        with contextlib.suppress(OSError):
            await raw.writer.wait_closed()


def hello_of(engine: Engine, **fields: Any) -> Hello:
    return Hello(**{"token": engine.token, "contract_version": CONTRACT_VERSION, "face": "test", **fields})


async def test_a_round_trip(engine):
    async with await connect(engine.paths) as client:
        assert client.welcome.pid == os.getpid()
        assert await client.request(Ping()) is None
        assert await client.request(Pause(seconds=60)) == {"done": "training.pause"}
    assert engine.commands == [Pause(seconds=60.0)]


async def test_only_the_user_can_reach_it(engine):
    assert stat.S_IMODE(engine.paths.socket_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(engine.paths.endpoint_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(engine.paths.data_dir.stat().st_mode) == 0o700
    endpoint = await find_engine(engine.paths)
    assert endpoint is not None
    assert (endpoint.kind, endpoint.token, endpoint.started_at) == ("unix", engine.token, 5.0)


async def test_a_subscriber_follows_the_state(engine):
    async with await connect(engine.paths, subscribe=True) as client:
        states = client.states()
        assert await anext(states) == engine.publisher.state
        engine.publisher.update(status=Status(state=RunState.TRAINING), today=Today(rounds=3))
        async for state in states:
            if state == engine.publisher.state:
                break
        assert client.state.today.rounds == 3
        await states.aclose()


async def test_without_subscribing_there_is_no_state(engine):
    async with await connect(engine.paths) as client:
        with pytest.raises(LookupError):
            _ = client.state
        engine.publisher.update(today=Today(rounds=1))
        assert await client.request(Resume()) == {"done": "training.resume"}
        with pytest.raises(LookupError):
            _ = client.state


async def test_state_get_is_the_whole_tree(engine):
    async with await connect(engine.paths) as client:
        tree = await client.call("state.get", {})
    assert msgspec.convert(tree, EngineState) == engine.publisher.state


async def test_errors_come_back_as_codes(engine, expect_log):
    expect_log("engine.control.dispatch", level=logging.ERROR)
    async with await connect(engine.paths) as client:
        for method, params, code in [
            ("project.join", {"project": "missing"}, ErrorCode.UNKNOWN_PROJECT),
            ("project.join", {"project": "fault"}, ErrorCode.INTERNAL),
            ("project.join", {}, ErrorCode.BAD_REQUEST),
            ("project.explode", {}, ErrorCode.UNKNOWN_METHOD),
        ]:
            with pytest.raises(ControlError) as refused:
                await client.call(method, params)
            assert refused.value.code is code
        assert await client.request(Ping()) is None  # the link outlives all of them


async def test_a_wrong_token_is_refused(engine, raws):
    raw = await raws()
    raw.say(hello_of(engine, token=new_token()))
    assert await raw.refused() is ErrorCode.BAD_TOKEN
    assert engine.faces == ()


async def test_another_contract_version_is_refused(engine, raws):
    raw = await raws()
    raw.say(hello_of(engine, contract_version=CONTRACT_VERSION + 1))
    message = await raw.hear()
    assert isinstance(message, Refused)
    assert message.error.code is ErrorCode.VERSION_MISMATCH
    assert message.error.params == {"engine": CONTRACT_VERSION, "face": CONTRACT_VERSION + 1}


async def test_the_client_tells_of_a_refusal(engine):
    endpoint = read_endpoint(engine.paths)
    assert endpoint is not None
    wrong = msgspec.structs.replace(endpoint, token=new_token())
    engine.paths.endpoint_file.write_bytes(msgspec.json.encode(wrong))
    with pytest.raises(ControlError) as refused:
        await connect(engine.paths)
    assert refused.value.code is ErrorCode.BAD_TOKEN
    engine.paths.endpoint_file.write_bytes(msgspec.json.encode(endpoint))


@pytest.mark.parametrize(
    "first",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n",
        b"{}\n",
        b'{"type":"request","id":1,"method":"ping"}\n',
        b"\xff\xfe\n",
        b"[" * 9000 + b"\n",
    ],
)
async def test_garbage_before_hello_is_refused(engine, raws, first):
    raw = await raws()
    raw.say(first)
    assert await raw.refused() is ErrorCode.BAD_REQUEST


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"patch"}\n', b'{"type":"request","id":"x"}\n'])
async def test_garbage_after_hello_ends_that_link_only(engine, raws, line):
    good, bad = await raws(hello=True, subscribe=False), await raws(hello=True, subscribe=False)
    bad.say(line)
    assert await bad.refused() is ErrorCode.BAD_REQUEST
    good.say(Request(id=9, method="ping"))
    assert await good.hear() == Reply(id=9)


async def test_a_second_hello_is_refused(engine, raws):
    raw = await raws(hello=True, subscribe=False)
    raw.say(hello_of(engine))
    assert await raw.refused() is ErrorCode.BAD_REQUEST


async def test_an_endless_line_is_refused(engine, raws):
    raw = await raws(hello=True, subscribe=False)
    raw.say(b"x" * (MAX_LINE_BYTES + 1000))
    message = await raw.hear()
    assert isinstance(message, Refused)
    assert "longer" in str(message.error.params["detail"])


async def test_silence_is_not_waited_for(engine, raws, monkeypatch):
    monkeypatch.setattr(link, "HELLO_SECONDS", 0.0)
    raw = await raws()
    assert await raw.refused() is ErrorCode.BAD_REQUEST


async def test_a_face_that_leaves_in_the_middle_of_a_line(engine, raws):
    raw = await raws(hello=True, subscribe=False)
    raw.say(b'{"type":"request","id":1,"met')
    raw.writer.write_eof()
    assert await raw.hear() is None
    assert engine.commands == []


async def test_a_face_that_leaves_is_still_obeyed(engine, raws):
    raw = await raws(hello=True, subscribe=False)
    raw.say(Request(id=1, method="training.resume"))
    raw.writer.write_eof()
    assert await raw.hear() == Reply(id=1, result={"done": "training.resume"})
    assert await raw.hear() is None


async def test_who_is_connected_is_told(engine, raws):
    raw = await raws(hello=True, subscribe=False, face="window\x00\n" + "w" * 100, wants_samples=True)
    (face,) = engine.faces
    assert face.wants_samples
    assert face.kind == "window" + "w" * 34
    assert engine.server.faces == engine.faces
    raw.writer.write_eof()
    assert await raw.hear() is None
    assert engine.faces == ()


async def test_no_more_faces_than_agreed(engine, raws):
    for _ in range(MAX_FACES):
        await raws(hello=True, subscribe=False)
    one_more = await raws()
    assert await one_more.refused() is ErrorCode.BAD_REQUEST
    assert len(engine.faces) == MAX_FACES


async def test_requests_in_flight_are_bounded(engine, raws):
    engine.gate.clear()
    raw = await raws(hello=True, subscribe=False)
    count = 3 * link.MAX_REQUESTS_IN_FLIGHT
    for number in range(count):
        raw.say(Request(id=number, method="training.resume"))
    async with asyncio.timeout(10), engine.changed:
        await engine.changed.wait_for(lambda: engine.running == link.MAX_REQUESTS_IN_FLIGHT)
    other = await raws(hello=True, subscribe=False)
    other.say(Request(id=1, method="ping"))
    assert await other.hear() == Reply(id=1)  # another face is not held up
    engine.gate.set()
    replies = [await raw.hear() for _ in range(count)]
    assert sorted(reply.id for reply in replies if isinstance(reply, Reply)) == list(range(count))
    assert engine.most_running == link.MAX_REQUESTS_IN_FLIGHT


def projects(size: int, version: int) -> tuple[ProjectCard, ...]:
    card = ProjectCard(
        project_id=f"{version}",
        name="n",
        title="t",
        summary="x" * size,
        publisher="p",
        licence="l",
        data_summary="d",
        parameter_count=1,
        download_bytes=1,
        memory_needed_bytes=1,
    )
    return (card,)


async def test_a_slow_reader_costs_nothing_and_is_brought_up_to_date(engine, raws, monkeypatch):
    monkeypatch.setattr("engine.control.publisher.FLUSH_SECONDS", 0.0)
    slow = await raws(hello=True)
    snapshot = await slow.hear()
    assert isinstance(snapshot, SnapshotMessage)
    slow.writer.transport.pause_reading()
    quick = await raws(hello=True)
    tree: dict[str, Any] = {}
    for version in range(40):  # 32 MB, were it all kept for the slow one
        engine.publisher.update(projects=projects(800_000, version))
        while tree.get("projects", [{}])[0:1] != [msgspec.to_builtins(engine.publisher.state.projects[0])]:
            message = await quick.hear()
            if isinstance(message, SnapshotMessage):
                tree = message.state
            else:
                assert isinstance(message, Patch)
                apply(tree, message)
    buffered = sum(task._writer.transport.get_write_buffer_size() for task in links_of(engine))
    assert buffered <= link.MAX_BUFFERED_BYTES + MAX_LINE_BYTES
    slow.writer.transport.resume_reading()
    tree, rev, snapshots = snapshot.state, snapshot.rev, 0
    while tree != msgspec.json.decode(msgspec.json.encode(engine.publisher.state)):
        message = await slow.hear()
        assert isinstance(message, SnapshotMessage | Patch)
        assert message.rev == rev + 1
        rev = message.rev
        if isinstance(message, SnapshotMessage):
            tree, snapshots = message.state, snapshots + 1
        else:
            apply(tree, message)
    assert snapshots == 1
    assert rev < 20


def links_of(engine: Engine) -> list[Any]:
    return [sub._sink for sub in engine.publisher._subscriptions]


async def test_a_state_that_fits_no_line_ends_the_link_not_the_engine(engine, raws, expect_log):
    expect_log("engine.control.link", level=logging.ERROR)
    raw = await raws(hello=True)
    assert isinstance(await raw.hear(), SnapshotMessage)
    engine.publisher.update(projects=projects(2 * MAX_LINE_BYTES, 1))
    assert await raw.hear() is None
    async with await connect(engine.paths) as client:
        assert await client.request(Ping()) is None


async def test_closing_ends_links_and_takes_the_files_away(paths, expect_log):
    engine = Engine(paths)
    engine.gate.clear()
    await engine.server.start()
    client = await connect(paths, subscribe=True)
    pending = asyncio.create_task(client.request(Resume()))
    async with asyncio.timeout(10), engine.changed:
        await engine.changed.wait_for(lambda: engine.running == 1)
    await engine.server.close()
    await engine.server.close()
    with pytest.raises(EngineGone):
        await pending
    assert engine.running == 0
    assert engine.faces == ()
    states = [state async for state in client.states()]
    assert len(states) == 1
    with pytest.raises(EngineGone):
        await client.request(Ping())
    await client.close()
    assert not paths.endpoint_file.exists()
    assert not paths.socket_file.exists()
    with pytest.raises(EngineNotRunning):
        await connect(paths)


async def test_an_engine_starts_over_a_stale_socket(paths):
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    left.bind(str(paths.socket_file))
    left.close()
    engine = Engine(paths)
    async with engine.server, await connect(paths) as client:
        assert await client.request(Ping()) is None


async def test_a_file_in_the_way_is_named_and_kept(paths):
    paths.socket_file.write_text("someone's notes")
    engine = Engine(paths)
    with pytest.raises(UserError, match="in the way"):
        await engine.server.start()
    assert paths.socket_file.read_text() == "someone's notes"
    assert not paths.endpoint_file.exists()


async def test_an_unwritable_endpoint_file_leaves_nothing_listening(paths):
    paths.endpoint_file.mkdir()
    engine = Engine(paths)
    with pytest.raises(UserError, match="cannot write"):
        await engine.server.start()
    assert not paths.socket_file.exists()


async def test_a_long_profile_path_uses_a_private_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    paths = Paths(tmp_path / ("deep" * 30))
    paths.ensure()
    assert paths.socket_file.parent != paths.data_dir
    engine = Engine(paths)
    async with engine.server, await connect(paths) as client:
        assert stat.S_IMODE(paths.socket_file.parent.stat().st_mode) == 0o700
        assert await client.request(Ping()) is None


CHILD = """
import asyncio, sys
from pathlib import Path
from engine.control.auth import new_token
from engine.control.endpoint import EngineLock
from engine.control.server import ControlServer
from engine.control.publisher import StatePublisher
from engine.contract.reasons import RunState
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, Status
from engine.core.paths import Paths

async def main():
    info = EngineInfo(version="0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/d")
    state = EngineState(engine=info, status=Status(state=RunState.IDLE), hub=HubStatus(url="", connected=False))
    paths = Paths(Path(sys.argv[1]))
    lock = EngineLock(paths)
    lock.acquire()
    async def handle(command, face):
        return None
    server = ControlServer(paths, new_token(), handle, StatePublisher(state), started_at=0.0)
    await server.start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_engine_leaves_nothing_in_the_way(paths):
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(paths.data_dir), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        async with asyncio.timeout(20):
            assert await child.stdout.readline() == b"ready\n"
        async with await connect(paths) as client:
            assert client.welcome.pid == child.pid
        with pytest.raises(UserError, match=rf"already running \(process {child.pid}\)"):
            EngineLock(paths).acquire()
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()
    assert paths.endpoint_file.exists()
    assert paths.socket_file.exists()
    assert await find_engine(paths) is None
    with pytest.raises(EngineNotRunning):
        await connect(paths)
    engine = Engine(paths)
    with EngineLock(paths):
        async with engine.server, await connect(paths) as client:
            assert client.welcome.pid == os.getpid()


def announce(paths: Paths) -> None:
    endpoint = Endpoint(
        kind="unix",
        address=str(paths.socket_file),
        pid=1,
        started_at=0.0,
        token="t" * 40,
        contract_version=CONTRACT_VERSION,
        engine_version="0",
    )
    write_endpoint(paths, endpoint)


@pytest.mark.parametrize("answer", [b"nonsense\n", b"", b'{"type":"patch","rev":1,"path":["a"],"value":1}\n'])
async def test_the_client_meets_something_that_is_no_engine(paths, answer):
    def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(greet, str(paths.socket_file))
    async with server:
        announce(paths)
        with pytest.raises(EngineNotRunning) as refused:
            await connect(paths)
    assert "not running" in refused.value.sentence


@pytest.mark.parametrize(
    "line",
    [b"{\n", b'{"type":"patch","rev":7,"path":["a"],"value":1}\n', b'{"type":"patch","rev":1,"path":[],"value":1}\n'],
)
async def test_nonsense_after_the_welcome_ends_the_client(paths, line):
    welcome = encode(Welcome(contract_version=1, engine_version="0", pid=1))

    def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(welcome + line)
        writer.close()

    server = await asyncio.start_unix_server(greet, str(paths.socket_file))
    async with server:
        announce(paths)
        async with await connect(paths, subscribe=True) as client:
            assert [state async for state in client.states()] == []
            with pytest.raises(EngineGone):
                await client.request(Ping())
