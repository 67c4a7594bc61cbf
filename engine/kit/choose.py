"""PURE. Which kit fits a computer."""

import re
from dataclasses import dataclass
from typing import Final

from engine.kit.errors import KitFault
from engine.kit.lock import Kit, KitLock

_SYSTEMS: Final = {"linux": "linux", "win32": "windows", "darwin": "macos"}
_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_ORDER: Final = ("cuda", "rocm", "mps", "cpu")
_CARDS: Final = {"cuda": "nvidia", "rocm": "amd", "mps": "apple"}


@dataclass(frozen=True, slots=True)
class Card:
    """A graphics card as its system names it."""

    vendor: str  # "nvidia", "amd", "apple"
    name: str = ""
    driver_version: str = ""  # empty: cannot be read


@dataclass(frozen=True, slots=True)
class Computer:
    """What decides on a kit."""

    platform: str  # as sys.platform
    machine: str  # as platform.machine()
    python: tuple[int, int]
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """A kit, and why it is not one for the graphics card that is there."""

    name: str
    kit: Kit
    passed_over: str = ""  # "", "driver_old", "driver_unreadable", "no_kit_for_card"
    card: str = ""
    driver_version: str = ""
    driver_needed: str = ""


def choose(lock: KitLock, computer: Computer) -> Choice:
    """The best kit that can work there; the processor's where the graphics card cannot be used.

    Raises:
        KitFault: no kit is for this system.
    """
    fitting = {name: kit for name, kit in lock.kits.items() if _fits(kit, computer)}
    ranked = sorted(fitting.items(), key=lambda item: (_ORDER.index(item[1].computes_on), item[0]))
    passed = ("", "", "", "")
    for name, kit in ranked:
        if kit.computes_on == "cpu":
            if computer.cards and not passed[0]:
                passed = ("no_kit_for_card", computer.cards[0].name, "", "")
            return Choice(name, kit, *passed)
        cards = [card for card in computer.cards if card.vendor == _CARDS[kit.computes_on]]
        for card in cards:
            why = _unusable(kit, card)
            if not why:
                return Choice(name, kit)
            passed = (why, card.name, card.driver_version, kit.minimum_driver)
    python = ".".join(map(str, computer.python))
    raise KitFault("no_kit", {"detail": f"{computer.platform}, {computer.machine}, Python {python}"})


def _fits(kit: Kit, computer: Computer) -> bool:
    return (
        kit.system == _SYSTEMS.get(computer.platform)
        and kit.machine == _MACHINES.get(computer.machine.lower())
        and kit.python == ".".join(map(str, computer.python))
    )


def _unusable(kit: Kit, card: Card) -> str:
    if not kit.minimum_driver:
        return ""
    have = _numbers(card.driver_version)
    if not have:
        return "driver_unreadable"
    return "" if have >= _numbers(kit.minimum_driver) else "driver_old"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:4])
