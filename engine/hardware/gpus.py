"""Graphics processors.

Asking a sleeping laptop GPU wakes it and drains the battery: one that the worker does not compute on now is asked once
only, and not even then while it sleeps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from engine.contract.snapshot import GpuReading
from engine.hardware.gpu_amd import read_amd
from engine.hardware.gpu_apple import APPLE_COMMAND, apple_name, parse_ioreg
from engine.hardware.gpu_card import Card, CardSource
from engine.hardware.gpu_nvidia import (
    NVIDIA_COMMAND,
    NVML_COMMAND,
    CommandSource,
    NvmlSource,
    parse_nvidia,
    sleeping_models,
)

SECONDS_BETWEEN: Final = 2.0
MAX_JOULES_BETWEEN: Final = 1e6


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What the worker does with the GPUs now. Unless it `computes`, no GPU is asked."""

    device: str = ""  # "cpu", "cuda", "mps"; "" while that is not known
    computes: bool = False
    own_pids: frozenset[int] = frozenset()

    @property
    def on_gpu(self) -> bool:
        """True while the worker computes on a GPU."""
        return self.computes and self.device not in ("", "cpu")


@dataclass(slots=True)
class _Watched:
    """Cards of one kind and the last that is known of them."""

    kind: str  # what the worker's device begins with when it uses them
    cards: tuple[Card, ...] = ()
    read_at: float | None = None
    energies: dict[int, float] = field(default_factory=dict)


class GpuReader:
    """Reads without waiting: an answer that is not there yet shows up in a later reading."""

    def __init__(
        self,
        cpu_name: str,
        *,
        nvidia_command: Sequence[str] = NVIDIA_COMMAND,
        nvml_command: Sequence[str] = NVML_COMMAND,
        root: Path = Path("/"),
        is_mac: bool = False,
    ) -> None:
        self._root = root
        self._smi = CommandSource(nvidia_command, parse_nvidia)
        self._nvidia_source: CardSource | None = None if is_mac else NvmlSource(nvml_command)
        apple = apple_name(cpu_name, is_mac)
        self._apple_source = CommandSource(APPLE_COMMAND, lambda text: parse_ioreg(text, apple)) if apple else None
        self._nvidia, self._amd = _Watched("cuda"), _Watched("cuda", _cards(read_amd(self._drm)))
        self._apple = _Watched("mps", _cards((GpuReading(name=apple),) if apple else ()))
        self._asked = False
        self._asked_at = float("-inf")
        self._joules = 0.0
        self.queries = 0
        """How many times a card or its driver was asked. Reading a file that wakes no card does not count."""

    @property
    def waiting(self) -> bool:
        """True while an answer is under way."""
        return any(source.waiting for source in self._sources())

    def read(self, use: GpuUse, now: float, monotonic: float) -> tuple[GpuReading, ...]:
        """All cards. Those not in use keep their last values, with the time (`now`, since the epoch) of these.

        `monotonic` is in seconds of any clock that does not go back.
        """
        self._collect(now, monotonic)
        due = monotonic - self._asked_at >= SECONDS_BETWEEN
        if use.on_gpu:
            if due:
                self._ask_cards_in_use(use, now, monotonic)
        elif not self._asked:
            self._ask_for_names(monotonic)
        if not use.on_gpu and self._asked and not self.waiting:
            self._rest()
        watched = (self._nvidia, self._amd, self._apple)
        return tuple(_reading(one, card, use) for one in watched for card in one.cards)

    def take_joules(self) -> float:
        """What the cards' own counters added since the last call."""
        joules, self._joules = self._joules, 0.0
        return joules

    def close(self) -> None:
        """End what runs. Safe to repeat."""
        self._rest()

    @property
    def _drm(self) -> Path:
        return self._root / "sys/class/drm"

    def _sources(self) -> list[CardSource]:
        return [source for source in (self._nvidia_source, self._apple_source) if source is not None]

    def _ask_for_names(self, monotonic: float) -> None:
        """Once, so that the machine's page can name the cards."""
        sleeping = sleeping_models(self._root)
        if sleeping is not None:
            self._nvidia.cards = _cards(tuple(GpuReading(name=name) for name in sleeping))
            return
        self._asked = True
        if self._nvidia_source is not None:
            self._ask(self._nvidia_source, monotonic)

    def _ask_cards_in_use(self, use: GpuUse, now: float, monotonic: float) -> None:
        if use.device.startswith("cuda"):
            if self._amd.cards:
                self.queries += 1
                self._amd.cards, self._amd.read_at = _cards(read_amd(self._drm, awake=True)), now
            if self._nvidia_source is not None and (self._nvidia.cards or not self._asked):
                self._ask(self._nvidia_source, monotonic)
            self._asked = True
        elif use.device.startswith("mps") and self._apple_source is not None:
            self._ask(self._apple_source, monotonic)

    def _ask(self, source: CardSource, monotonic: float) -> None:
        if not source.waiting:
            self.queries += 1
            self._asked_at = monotonic
            source.ask(monotonic)

    def _collect(self, now: float, monotonic: float) -> None:
        self._collect_from(self._apple_source, self._apple, now, monotonic)
        source = self._nvidia_source
        waited = source is not None and source.waiting
        self._collect_from(source, self._nvidia, now, monotonic)
        failed = waited and source is not None and not source.waiting and self._nvidia.read_at != now
        if failed and isinstance(source, NvmlSource):  # no library, no driver, or one that hangs
            self._nvidia_source = self._smi
            self._ask(self._smi, monotonic)

    def _collect_from(self, source: CardSource | None, watched: _Watched, now: float, monotonic: float) -> None:
        cards = None if source is None else source.take(monotonic)
        if cards is None:
            return
        watched.cards, watched.read_at = cards, now
        for index, card in enumerate(cards):
            if card.energy_joules is not None:
                used = card.energy_joules - watched.energies.get(index, card.energy_joules)
                self._joules += used if 0 <= used <= MAX_JOULES_BETWEEN else 0.0
                watched.energies[index] = card.energy_joules

    def _rest(self) -> None:
        for source in self._sources():
            source.rest()
        for watched in (self._nvidia, self._apple):
            watched.energies.clear()  # what others use meanwhile is not counted


def _cards(gpus: tuple[GpuReading, ...]) -> tuple[Card, ...]:
    return tuple(Card(gpu) for gpu in gpus)


def _reading(watched: _Watched, card: Card, use: GpuUse) -> GpuReading:
    usable = use.device.startswith(watched.kind)
    where = "the processor" if use.device == "cpu" else use.device
    return msgspec.structs.replace(
        card.gpu,
        foreign_load_percent=_foreign(card.process_loads, use.own_pids),
        own_memory_bytes=_own(card.process_memory_bytes, use.own_pids),
        usable=usable,
        detail="" if usable or not use.device else f"training here computes on {where}",
        read_at=watched.read_at,
    )


def _foreign(loads: Mapping[int, float] | None, own: frozenset[int]) -> float | None:
    return None if loads is None else min(100.0, sum(load for pid, load in loads.items() if pid not in own))


def _own(memory: Mapping[int, int] | None, own: frozenset[int]) -> int | None:
    return None if memory is None else sum(held for pid, held in memory.items() if pid in own)
