"""The training kit of one engine: there or not, being fetched, tried, taken into use. Owned by the supervisor."""

import asyncio
import contextlib
import importlib.util
import logging
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final, Protocol

import aiohttp
import msgspec

from engine.contract.reasons import Reason, ReasonCode
from engine.contract.snapshot import KitState, Machine
from engine.core.clock import Clock
from engine.kit.choose import Card, Choice, Computer, choose
from engine.kit.errors import KitFault
from engine.kit.fetch import bytes_here, disk_fault, fetch_kit
from engine.kit.install import InUse, in_use, remove, take_into_use, try_out, unpack
from engine.kit.lock import KitLock, parse_lock
from engine.training.host import KIT_VARIABLE

log = logging.getLogger(__name__)

HOME_NAME: Final = "kit"
FILES_NAME: Final = "files"
LOCK_NAME: Final = "kits.json"
SOURCES_NAME: Final = "kit-sources.json"
SOURCES_VARIABLE: Final = "POTLUCK_KIT_SOURCES"
"""Addresses of folders with the kits' files, separated by spaces; before those that came with the application."""
HUB_PATH: Final = "/kits"
TELL_SECONDS: Final = 0.5
_RATE_WEIGHT: Final = 0.3


class KitListener(Protocol):
    """The supervisor's side."""

    def on_kit(self, state: KitState) -> None:
        """It changed; shown to every face."""

    def on_kit_ready(self) -> None:
        """Sessions may begin."""


@dataclass(frozen=True, slots=True)
class KitParts:
    """What a service works with; tests bring their own lock and torch."""

    home: Path
    clock: Clock
    lock: Callable[[], KitLock]
    included: Callable[[], bool]
    sources: Callable[[], Sequence[str]]
    test_command: Sequence[str] = ()


def bundled_lock() -> KitLock:
    """The lock file of this application.

    Raises:
        KitFault: it is not sound.
    """
    return parse_lock(resources.files("resources").joinpath(LOCK_NAME).read_bytes())


def bundled_sources() -> tuple[str, ...]:
    """Where this application's publisher keeps the kits' files; named by the release, so none in a source tree."""
    named = tuple(os.environ.get(SOURCES_VARIABLE, "").split())
    with contextlib.suppress(OSError, msgspec.DecodeError):
        text = resources.files("resources").joinpath(SOURCES_NAME).read_bytes()
        named += msgspec.json.decode(text, type=tuple[str, ...])
    return tuple(source.rstrip("/") for source in named if source.startswith(("https://", "http://")))


def torch_is_included() -> bool:
    """True where torch is installed with the application: a source tree, a full bundle."""
    return importlib.util.find_spec("torch") is not None


def computer(machine: Machine) -> Computer:
    """As far as it decides on a kit."""
    cards = tuple(
        Card(vendor=_vendor(gpu.name), name=gpu.name, driver_version=gpu.driver_version) for gpu in machine.gpus
    )
    return Computer(sys.platform, platform.machine(), sys.version_info[:2], cards)


def _vendor(name: str) -> str:
    lower = name.lower()
    known = {"nvidia": ("nvidia", "geforce", "quadro", "tesla"), "amd": ("amd", "radeon"), "apple": ("apple",)}
    return next((vendor for vendor, words in known.items() if any(word in lower for word in words)), "")


class KitService:
    """`want` begins or goes on, `pause` stops and keeps what is here; `close` is for the end."""

    def __init__(self, parts: KitParts, listener: KitListener) -> None:
        self._parts = parts
        self._listener = listener
        self._files = parts.home / FILES_NAME
        self._task: asyncio.Task[None] | None = None
        self._told_at = 0.0
        self._rate: float | None = None
        self._last = (0, 0.0)
        self.state = self._first_state()

    def _first_state(self) -> KitState:
        if self._parts.included():
            return KitState(state="included")
        kit = in_use(self._parts.home)
        if kit is None:
            return KitState(state="missing")
        os.environ[KIT_VARIABLE] = str(self._parts.home / kit.folder)
        return KitState(state="ready", name=kit.name, version=kit.version, computes_on=kit.computes_on)

    @property
    def ready(self) -> bool:
        """Whether workers can be started."""
        return self.state.state in ("included", "ready")

    @property
    def reason(self) -> Reason | None:
        """Why no session begins; None when it is not for the kit."""
        if self.ready:
            return None
        if self.state.state in ("fetching", "unpacking", "testing") and self.state.total_bytes:
            percent = int(100 * self.state.done_bytes / self.state.total_bytes)
            return Reason(code=ReasonCode.KIT_COMING, params={"percent": percent})
        return Reason(code=ReasonCode.KIT_MISSING)

    def offer(self, machine: Machine) -> None:
        """Say what there would be to fetch, before anybody asks for it."""
        if self.state.state != "missing" or self.state.name:
            return
        try:
            choice = choose(self._parts.lock(), computer(machine))
        except KitFault as fault:
            self._fail(fault)
        else:
            self._tell(_described(choice, "missing", bytes_here(choice.kit, self._files)))

    def want(self, machine: Machine, hub_url: str) -> None:
        """Begin, or go on where it was. Asking twice changes nothing."""
        if self.ready or (self._task is not None and not self._task.done()):
            return
        self._task = asyncio.create_task(self._get(machine, hub_url), name="training kit")

    async def pause(self) -> None:
        """Stop fetching; what is here stays for the next time."""
        await self.close()
        if not self.ready:
            self._tell(msgspec.structs.replace(self.state, state="paused", bytes_per_second=None))

    async def close(self) -> None:
        """Safe to repeat."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
        self._task = None

    async def _get(self, machine: Machine, hub_url: str) -> None:
        try:
            choice = choose(self._parts.lock(), computer(machine))
            here = await asyncio.to_thread(bytes_here, choice.kit, self._files)
            self._last, self._rate = (here, self._parts.clock.monotonic()), None
            self._tell(_described(choice, "fetching", here))
            sources = [*self._parts.sources(), *([hub_url.rstrip("/") + HUB_PATH] if hub_url else [])]
            async with aiohttp.ClientSession() as http:
                await fetch_kit(choice.kit, self._files, sources, http, self._on_bytes)
            await self._install(choice)
        except KitFault as fault:
            self._fail(fault)
        except OSError as error:  # a disk that fills up or goes away between two steps
            self._fail(disk_fault(self._parts.home, error))
        else:
            self._listener.on_kit_ready()

    def _fail(self, fault: KitFault) -> None:
        log.warning("training kit: %s", fault)
        state = "failed" if fault.retry else "unusable"
        self._tell(msgspec.structs.replace(self.state, state=state, fault=fault.code, params=fault.params))

    async def _install(self, choice: Choice) -> None:
        folder = f"{choice.name}-{choice.kit.version}-{choice.kit.files[0].sha256[:8]}"
        target, loop = self._parts.home / folder, asyncio.get_running_loop()
        total = choice.kit.download_bytes
        self._tell(_described(choice, "unpacking", 0))

        def progress(fraction: float) -> None:
            loop.call_soon_threadsafe(self._on_bytes, int(fraction * total))

        try:
            await asyncio.to_thread(unpack, choice.kit, self._files, target, progress)
            self._tell(_described(choice, "testing", total))
            said = await asyncio.to_thread(try_out, target, choice.kit.computes_on, self._parts.test_command)
        except KitFault:
            await asyncio.to_thread(remove, target)
            raise
        log.info("the training kit says: %s", said)
        kit = InUse(choice.name, choice.kit.version, folder, choice.kit.computes_on)
        await asyncio.to_thread(take_into_use, self._parts.home, kit)
        await asyncio.to_thread(shutil.rmtree, self._files, ignore_errors=True)
        os.environ[KIT_VARIABLE] = str(target)
        self._tell(_described(choice, "ready", total))

    def _on_bytes(self, done: int) -> None:
        now = self._parts.clock.monotonic()
        if now - self._told_at < TELL_SECONDS:
            return
        before, before_at = self._last
        if now > before_at and self.state.state == "fetching":
            rate = max(0.0, (done - before) / (now - before_at))
            self._rate = rate if self._rate is None else self._rate + _RATE_WEIGHT * (rate - self._rate)
        self._last = (done, now)
        self._tell(msgspec.structs.replace(self.state, done_bytes=done, bytes_per_second=self._rate))

    def _tell(self, state: KitState) -> None:
        self._told_at = self._parts.clock.monotonic()
        self.state = state
        self._listener.on_kit(state)


def _described(choice: Choice, state: str, done_bytes: int) -> KitState:
    return KitState(
        state=state,
        name=choice.name,
        version=choice.kit.version,
        computes_on=choice.kit.computes_on,
        total_bytes=choice.kit.download_bytes,
        done_bytes=done_bytes,
        space_bytes=choice.kit.space_bytes,
        passed_over=choice.passed_over,
        card=choice.card,
        driver_version=choice.driver_version,
        driver_needed=choice.driver_needed,
    )


def kit_parts(home: Path, clock: Clock) -> KitParts:
    """The real ones."""
    return KitParts(home, clock, bundled_lock, torch_is_included, bundled_sources)
