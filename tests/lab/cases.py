"""What is tried in a lab: a hub and coturn on the public side, and a computer in each of two homes."""

import base64
import contextlib
import hashlib
import hmac
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.signaling.messages import IceServer
from tests.lab.topology import SERVER_ADDRESS, TURN_SECRET, Home, Lab, Nat, a_turn_server

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 40.0
CONNECT_SECONDS: Final = 45.0


def ice_servers(valid_seconds: int = 3600) -> tuple[IceServer, ...]:
    """STUN and TURN of the lab, with a credential of coturn's REST scheme."""
    username = f"{int(time.time()) + valid_seconds}:lab"
    digest = hmac.new(TURN_SECRET.encode(), username.encode(), hashlib.sha1).digest()
    turn = f"turn:{SERVER_ADDRESS}:3478"
    return (
        IceServer(urls=(f"stun:{SERVER_ADDRESS}:3478",)),
        IceServer(
            urls=(f"{turn}?transport=udp", f"{turn}?transport=tcp"),
            username=username,
            credential=base64.b64encode(digest).decode(),
        ),
    )


class Process:
    """A child whose standard output is lines of JSON or text."""

    def __init__(self, command: Sequence[str], log: Path, **environment: str) -> None:
        self.log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.seen: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        """Of `ip netns exec`'s successor, which is the program itself."""
        return self._process.pid

    def _read(self) -> None:
        if self._process.stdout is not None:
            for text in self._process.stdout:
                self._lines.put(text.strip())
        self._lines.put(None)

    def line(self, seconds: float) -> str:
        """The next line.

        Raises:
            TimeoutError: none came.
        """
        try:
            text = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no line in {seconds:.0f} s; {self.last_words()}") from None
        if text is None:
            raise TimeoutError(f"it ended; {self.last_words()}")
        return text

    def until(self, event: str, seconds: float) -> dict[str, Any]:
        """The first line of that event.

        Raises:
            TimeoutError: it did not come.
        """
        deadline = time.monotonic() + seconds
        while True:
            found = msgspec.json.decode(self.line(max(0.01, deadline - time.monotonic())))
            self.seen.append(found)
            if found["event"] == event:
                return dict(found)

    def say(self, **message: Any) -> None:
        """A line of JSON to its standard input."""
        if self._process.stdin is not None:
            self._process.stdin.write(msgspec.json.encode(message).decode() + "\n")
            self._process.stdin.flush()

    def order(self, word: str) -> None:
        """A line of text to its standard input."""
        if self._process.stdin is not None:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()

    def last_words(self) -> str:
        """Of its log."""
        return self.log.read_text(errors="replace")[-600:]

    def rest(self) -> list[dict[str, Any]]:
        """Every line not yet taken; after `close`."""
        found = []
        while (text := self._lines.get()) is not None:
            found.append(msgspec.json.decode(text))
        return found

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        if self._process.stdout is not None:
            self._process.stdout.close()


@dataclass(frozen=True)
class PublicSide:
    """What runs there."""

    hub: Process
    relay: subprocess.Popen[bytes]


@dataclass
class Meeting:
    """How a pair of homes met."""

    connected: bool
    path: str = ""
    seconds: float = 0.0
    why_not: str = ""


@contextlib.contextmanager
def a_public_side(lab: Lab, folder: Path, servers: tuple[IceServer, ...] | None = None) -> Iterator[PublicSide]:
    """coturn and the hub."""
    told = msgspec.json.encode(ice_servers() if servers is None else servers).decode()
    with a_turn_server(lab, folder) as relay:
        hub = Process(lab.serve(sys.executable, "-m", "tests.lab.hub", str(folder), told), folder / "hub.log")
        try:
            hub.line(START_SECONDS)
            yield PublicSide(hub, relay)
        finally:
            hub.close()


def peer(home: Home, number: int, folder: Path, command: str = "meet", seconds: float = 0.0) -> Process:
    """A computer of `home`."""
    argv = home.command(sys.executable, "-m", "tests.lab.peer", str(number), command, str(seconds))
    return Process(argv, folder / f"peer-{number}.log")


def meet(first: Nat, second: Nat, number: int = 0, *, same_subnet: bool = False) -> Meeting:
    """Two homes of these kinds try to connect and to exchange a message."""
    with Lab(number) as lab, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = [lab.add_home(nat, "192.168.1" if same_subnet else "") for nat in (first, second)]
        with a_public_side(lab, folder):
            peers = [peer(home, index, folder) for index, home in enumerate(homes)]
            try:
                for one in peers:
                    one.until("start", START_SECONDS)
                up = peers[0].until("up", CONNECT_SECONDS)
                peers[0].until("met", CONNECT_SECONDS)
                return Meeting(True, up["path"], up["seconds"])
            except TimeoutError as error:
                return Meeting(False, why_not=str(error)[:1500])
            finally:
                for one in peers:
                    one.close()
