"""The benchmark of this computer: run on request in a process of its own, cancellable, kept for next time."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from engine.contract import commands as c
from engine.contract.reasons import ReasonCode
from engine.contract.snapshot import DeviceSpeed, Measurement, SessionState
from engine.control.publisher import StatePublisher
from engine.core.clock import Clock
from engine.core.files import write_atomic
from engine.core.paths import Paths
from engine.manifest.parse import parameter_count
from engine.runtime.bundled import bundled_manifests
from engine.runtime.fit import tokens_per_hour
from engine.runtime.guest import Guest
from engine.runtime.line_meter import LineMeter
from engine.training.host import worker_environment

log = logging.getLogger(__name__)

FILE_NAME: Final = "measurement.json"
DEVICE_SECONDS: Final = 12.0
LIMIT_SECONDS: Final = 240.0
MAX_FILE_BYTES: Final = 64 * 1024
TOO_HOT: Final = "the computer became too hot"


class _Fraction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fraction: float


class _Speed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: str
    name: str = ""
    tokens_per_second: float | None = None
    memory_bytes: int | None = None
    detail: str = ""


_Line: TypeAlias = _Fraction | _Speed


class MachineMeasure:
    """One engine's measurement. `run` owns the process."""

    def __init__(
        self,
        paths: Paths,
        clock: Clock,
        publisher: StatePublisher,
        guest: Guest,
        command: Sequence[str] = (),
    ) -> None:
        self._file = paths.data_dir / FILE_NAME
        self._clock = clock
        self._publisher = publisher
        self._guest = guest
        self._command = tuple(command) or (sys.executable, "-P", "-m", "engine.training.benchmark")
        self._wanted = asyncio.Event()
        self._work: asyncio.Task[Measurement] | None = None
        self._line = LineMeter()
        self._reference = bundled_manifests()[0]

    def on_traffic(self, session: SessionState) -> None:
        """Learn how fast the line is."""
        self._line.note(session, self._clock.monotonic())

    def fit(self, parameters: int) -> float | None:
        """Tokens an hour that this computer would do for a model of this size, about; None when not measured."""
        state = self._publisher.state
        return tokens_per_hour(state.measurement, parameter_count(self._reference), parameters, state.settings)

    def obey(self, command: c.MeasureMachine | c.CancelMeasure) -> None:
        """What the user asks for."""
        if isinstance(command, c.MeasureMachine):
            self.start()
        else:
            self.cancel()

    def start(self) -> None:
        """Measure; nothing changes when that runs already."""
        self._wanted.set()

    def cancel(self) -> None:
        """End it; nothing changes when none runs."""
        self._wanted.clear()
        if self._work is not None:
            self._work.cancel()

    async def run(self) -> None:
        """Until cancelled."""
        self._publisher.update(measurement=await asyncio.to_thread(self._load))
        while True:
            await self._wanted.wait()
            before = self._publisher.state.measurement
            self._tell(Measurement(state="running", fraction=0.0, devices=before.devices))
            self._guest.measuring(True)
            self._work = asyncio.create_task(self._measure(), name="measuring")
            try:
                await asyncio.wait({self._work})
                result = self._result(self._work, before)
            finally:
                if not self._work.done():
                    self._work.cancel()
                    await asyncio.wait({self._work})
                self._work = None
                self._wanted.clear()
                self._guest.measuring(False)
            await asyncio.to_thread(self._keep, result)
            self._tell(result)

    def _result(self, work: "asyncio.Task[Measurement]", before: Measurement) -> Measurement:
        if work.cancelled():
            return msgspec.structs.replace(before, state="cancelled", fraction=None)
        return work.result()

    async def _measure(self) -> Measurement:
        begun, machine = self._clock.monotonic(), self._publisher.state.machine
        threads = max(1, machine.cores_physical or machine.cores_logical or os.cpu_count() or 1)
        free = None
        if machine.memory_total_bytes is not None and machine.memory_used_bytes is not None:
            free = machine.memory_total_bytes - machine.memory_used_bytes
        speeds: list[DeviceSpeed] = []
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                detail = await self._run_child(threads, speeds)
        except TimeoutError:
            detail = f"it took longer than {LIMIT_SECONDS:.0f} s"
        except OSError as error:
            detail = f"it cannot be started: {error.strerror or error}"
        return Measurement(
            state="done" if not detail else "failed",
            at=self._clock.now(),
            seconds=self._clock.monotonic() - begun,
            devices=tuple(speeds),
            memory_free_bytes=free,
            upload_bytes_per_second=self._line.upload_bytes_per_second,
            download_bytes_per_second=self._line.download_bytes_per_second,
            detail=detail,
        )

    async def _run_child(self, threads: int, speeds: list[DeviceSpeed]) -> str:
        """Why it failed; "" when it did not."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            str(threads),
            str(DEVICE_SECONDS),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=worker_environment(os.environ, threads),
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the benchmark has no pipes")
        try:
            process.stdin.write(msgspec.json.encode(self._reference) + b"\n")
            while line := await process.stdout.readline():
                if not self._on_line(line, speeds):
                    return "it said something that makes no sense"
                if any(reason.code is ReasonCode.TOO_HOT for reason in self._guest.decision.reasons):
                    return TOO_HOT
            status = await process.wait()
            return "" if status == 0 and speeds else f"it ended with status {status}"
        except (BrokenPipeError, ConnectionResetError, ValueError) as error:
            return str(error) or type(error).__name__
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            process.stdin.close()
            await process.wait()

    def _on_line(self, line: bytes, speeds: list[DeviceSpeed]) -> bool:
        try:
            said = _line_of(line)
        except msgspec.DecodeError:
            return False
        if isinstance(said, _Speed):
            speeds.append(
                DeviceSpeed(
                    device=said.device,
                    name=said.name or (self._publisher.state.machine.cpu_name if said.device == "cpu" else ""),
                    tokens_per_second=said.tokens_per_second,
                    memory_bytes=said.memory_bytes,
                    detail=said.detail,
                )
            )
        else:
            self._tell(Measurement(state="running", fraction=said.fraction, devices=tuple(speeds)))
        return True

    def _tell(self, measurement: Measurement) -> None:
        self._publisher.update(measurement=measurement)

    def _load(self) -> Measurement:
        """The last one that was kept; an empty one when there is none that can be read."""
        try:
            kept = msgspec.json.decode(self._file.read_bytes()[:MAX_FILE_BYTES], type=Measurement)
        except (OSError, msgspec.DecodeError):
            return Measurement()
        return kept if kept.state != "running" else Measurement()

    def _keep(self, measurement: Measurement) -> None:
        try:
            write_atomic(self._file, msgspec.json.encode(measurement))
        except OSError as error:
            log.info("the measurement cannot be kept: %s", error)


def _line_of(line: bytes) -> _Line:
    try:
        return msgspec.json.decode(line, type=_Fraction)
    except msgspec.ValidationError:
        return msgspec.json.decode(line, type=_Speed)
