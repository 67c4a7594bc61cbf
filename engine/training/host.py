"""Spawns, watches and ends the training worker. asyncio, no torch: the engine pays for torch only in the child."""

import asyncio
import contextlib
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import psutil

import engine
from engine.training.pipe import FrameReader, PipeError, decode_from_worker, encode_frame
from engine.training.protocol import Accumulated, Failed, FromWorker, Pong, Ready, Start, Stop, ToWorker, WorkerPing

log = logging.getLogger(__name__)

STDERR_LINES: Final = 50
KIT_VARIABLE: Final = "POTLUCK_KIT"
"""In the engine's environment: the folder of the training kit in use, before all else that a worker imports."""
_READ_BYTES: Final = 65_536
_MAX_LINE_CHARS: Final = 500
_KEPT_BLOCK_BYTES: Final = 32 * 1024**2
_KEPT_FREE_BYTES: Final = 2**31 - 1
"""For glibc: every micro-batch needs the memory of the one before, so giving it back to the system between them only
costs page faults (several percent of a small model's speed). Other C libraries ignore it."""


@dataclass(frozen=True, slots=True)
class HostTimes:
    """Deadlines of a worker's life."""

    ready_seconds: float = 180.0  # importing torch on a slow, busy computer
    ping_seconds: float = 2.0
    shortest_silence_seconds: float = 15.0
    silence_factor: float = 10.0  # times the longest micro-batch or answer seen
    stop_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """The last event of a worker that `close` did not end."""

    exit_code: int | None  # negative: minus the signal's number
    hung: bool  # it was silent or never ready, and so was killed
    detail: str  # one sentence for the log
    failed: Failed | None = None  # what it said before, if anything
    stderr_tail: tuple[str, ...] = ()


WorkerEvent: TypeAlias = FromWorker | WorkerDied


class Watch:
    """How long a worker may be silent. Pure: the loop's time is passed in."""

    def __init__(self, times: HostTimes, now: float) -> None:
        self._times = times
        self._started_at = now
        self._ready = False
        self._asked_at: dict[int, float] = {}
        self._number = 0
        self._longest = 0.0
        self._busy_before = 0.0
        self._looked_at = now

    def on_beat(self, now: float) -> None:
        """Call before `problem`, every `ping_seconds`. If that came late (the computer slept, the engine was held up)
        the silence may be ours, so the worker gets its time anew."""
        late_seconds = now - self._looked_at - self._times.ping_seconds
        self._looked_at = now
        if late_seconds > self._times.shortest_silence_seconds / 2:
            self._asked_at = dict.fromkeys(self._asked_at, now)
            self._started_at += late_seconds

    def on_ready(self) -> None:
        """From here on pings count, not the start."""
        self._ready = True

    def next_ping(self, now: float) -> WorkerPing | None:
        """A ping to send; None before the worker is ready."""
        if not self._ready:
            return None
        self._number += 1
        self._asked_at[self._number] = now
        return WorkerPing(number=self._number)

    def on_pong(self, number: int, now: float) -> None:
        """The training thread lived when it answered, so older pings need no answer of their own."""
        asked_at = self._asked_at.get(number)
        if asked_at is None:
            return
        self._longest = max(self._longest, now - asked_at)
        self._asked_at = {key: at for key, at in self._asked_at.items() if key > number}

    def on_accumulated(self, busy_seconds: float) -> None:
        """Learn what a micro-batch takes here."""
        self._longest = max(self._longest, busy_seconds - self._busy_before)
        self._busy_before = busy_seconds

    def silence_allowed_seconds(self) -> float:
        """From the longest micro-batch or answer seen."""
        return max(self._times.shortest_silence_seconds, self._times.silence_factor * self._longest)

    def problem(self, now: float) -> str:
        """Why the worker is to be killed; empty while all is well."""
        if not self._ready:
            waited = now - self._started_at
            return f"was not ready after {waited:.0f} s" if waited > self._times.ready_seconds else ""
        oldest = min(self._asked_at.values(), default=now)
        if now - oldest > self.silence_allowed_seconds():
            return f"did not answer for {now - oldest:.0f} s"
        return ""


class WorkerHost:
    """One worker process, from `start` to its end. Make a new host for the next process."""

    def __init__(self, start: Start, times: HostTimes | None = None, command: Sequence[str] = ()) -> None:
        self._start = start
        self._times = times if times is not None else HostTimes()
        self._command = tuple(command) or (sys.executable, "-P", "-m", "engine.training.worker")
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[WorkerEvent | None] = asyncio.Queue()
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._watch = Watch(self._times, 0.0)
        self._failed: Failed | None = None
        self._killed_for = ""
        self._hung = False
        self._closing = False

    async def start(self) -> None:
        """Spawn the process and send it `Start`; `Ready` or `WorkerDied` comes as an event.

        Raises:
            OSError: the process cannot be created.
        """
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=worker_environment(os.environ, self._start.threads),
        )
        self._watch = Watch(self._times, asyncio.get_running_loop().time())
        self._supervisor = asyncio.create_task(self._supervise(self._process), name="worker")
        await self.send(self._start)

    @property
    def pid(self) -> int | None:
        """The worker's process id, once started."""
        return self._process.pid if self._process is not None else None

    def memory_bytes(self) -> int | None:
        """Resident memory of the worker; None when it is not running."""
        if self._process is None or self._process.returncode is not None:
            return None
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return None

    async def events(self) -> AsyncIterator[WorkerEvent]:
        """Messages in order; ends after `WorkerDied`, or when closed. One consumer."""
        while True:
            event = await self._events.get()
            if event is None:
                return
            yield event

    async def send(self, message: ToWorker) -> None:
        """Write a message to the worker. To a dead one it is lost: its death comes as an event.

        Raises:
            RuntimeError: the host was not started.
            PipeError: the message is too long for a frame.
        """
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("the worker was not started")
        frame = encode_frame(message)
        # Waiting here ends at the latest when the watch kills a worker that does not read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(frame)
            await self._process.stdin.drain()

    async def close(self) -> None:
        """Ask the worker to stop, kill it if it does not within the deadline, end `events()`. Safe to repeat."""
        self._closing = True
        process = self._process
        if process is None or self._supervisor is None:
            self._events.put_nowait(None)
            return
        try:
            async with asyncio.timeout(self._times.stop_seconds):
                await self.send(Stop())
                await process.wait()
        except TimeoutError:
            log.debug("The worker did not stop in time and is killed")
        finally:
            _kill(process)
        await self._supervisor

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        """Owns the process: returns when it is gone and its last words are read."""
        heartbeat = asyncio.create_task(self._heartbeat(process), name="worker heartbeat")
        stderr = asyncio.create_task(self._read_stderr(process), name="worker stderr")
        try:
            await self._read_stdout(process)
            await process.wait()
            async with asyncio.timeout(self._times.stop_seconds):
                await stderr
        except TimeoutError:
            log.debug("The worker's stderr stayed open after its end")
        finally:
            _kill(process)
            for task in (heartbeat, stderr):
                task.cancel()
            await asyncio.gather(heartbeat, stderr, return_exceptions=True)
            if process.stdin is not None:
                process.stdin.close()
        if not self._closing:
            self._events.put_nowait(self._death(process.returncode))
        self._events.put_nowait(None)

    async def _read_stdout(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            raise RuntimeError("the worker has no stdout pipe")
        frames = FrameReader()
        try:
            while data := await process.stdout.read(_READ_BYTES):
                for body in frames.feed(data):
                    self._on_message(decode_from_worker(body))
        except PipeError as error:
            self._kill_for(process, f"sent garbage: {error}", hung=False)

    def _on_message(self, message: FromWorker) -> None:
        match message:
            case Pong(number=number):
                self._watch.on_pong(number, asyncio.get_running_loop().time())
                return
            case Ready():
                self._watch.on_ready()
            case Accumulated(busy_seconds=busy_seconds):
                self._watch.on_accumulated(busy_seconds)
            case Failed():
                self._failed = message
            case _:
                pass
        self._events.put_nowait(message)

    async def _heartbeat(self, process: asyncio.subprocess.Process) -> None:
        loop = asyncio.get_running_loop()
        while process.returncode is None:
            self._watch.on_beat(loop.time())
            problem = self._watch.problem(loop.time())
            if problem:
                self._kill_for(process, problem, hung=True)
                return
            ping = self._watch.next_ping(loop.time())
            if ping is not None:
                await self._ping(ping)
            await asyncio.sleep(self._times.ping_seconds)

    async def _ping(self, ping: WorkerPing) -> None:
        """Never waits longer than a beat: a worker that does not read must still be found out."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._times.ping_seconds):
                await self.send(ping)

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        if process.stderr is None:
            raise RuntimeError("the worker has no stderr pipe")
        rest = b""
        while data := await process.stderr.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._keep_line(line)
            rest = rest[-_MAX_LINE_CHARS:]
        if rest:
            self._keep_line(rest)

    def _keep_line(self, line: bytes) -> None:
        text = line.decode("utf-8", errors="replace").rstrip()[:_MAX_LINE_CHARS]
        if text:
            self._stderr.append(text)
            log.debug("worker: %s", text)

    def _kill_for(self, process: asyncio.subprocess.Process, why: str, *, hung: bool) -> None:
        self._killed_for = why
        self._hung = hung
        _kill(process)

    def _death(self, exit_code: int | None) -> WorkerDied:
        hung = bool(self._killed_for) and self._hung
        if self._killed_for:
            detail = f"The training process {self._killed_for} and was killed."
        elif self._failed is not None:
            detail = f"The training process gave up ({self._failed.kind}): {self._failed.detail}"
        else:
            last = self._stderr[-1] if self._stderr else "it said nothing"
            detail = f"The training process ended with status {exit_code}: {last}"
        return WorkerDied(
            exit_code=exit_code, hung=hung, detail=detail, failed=self._failed, stderr_tail=tuple(self._stderr)
        )


def worker_environment(base: Mapping[str, str], threads: int) -> dict[str, str]:
    """The worker's environment: nothing from the network, no thread pools beside its own, the engine importable."""
    count = str(max(1, threads))
    root = str(Path(engine.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (base.get(KIT_VARIABLE, ""), root, base.get("PYTHONPATH", ""))))
    return {
        **base,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OMP_WAIT_POLICY": "PASSIVE",
        "MALLOC_MMAP_THRESHOLD_": str(_KEPT_BLOCK_BYTES),
        "MALLOC_TRIM_THRESHOLD_": str(_KEPT_FREE_BYTES),
        "PYTHONPATH": path,
    }


def _kill(process: asyncio.subprocess.Process) -> None:
    """SIGKILL, which ends a stopped process too."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
