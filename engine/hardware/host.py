"""What the sensors look at: this computer, or one that a test made."""

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class AnyBus(Protocol):
    """A message bus, as `engine.hardware.bus.Bus` offers it."""

    @property
    def there(self) -> bool: ...

    def get(self, service: str, path: str, interface: str, name: str) -> Any: ...

    def call(
        self, service: str, path: str, interface: str, method: str, signature: str = "", arguments: tuple[Any, ...] = ()
    ) -> tuple[Any, ...]: ...

    def close(self) -> None: ...


class NoBus:
    """Where there is no D-Bus."""

    there = False

    def get(self, service: str, path: str, interface: str, name: str) -> Any:
        return None

    def call(
        self, service: str, path: str, interface: str, method: str, signature: str = "", arguments: tuple[Any, ...] = ()
    ) -> tuple[Any, ...]:
        return ()

    def close(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Host:
    """`system` is sys.platform's word; `root` is above /sys and /proc; `load` opens a system library by name."""

    system: str
    root: Path
    environment: Mapping[str, str]
    session_bus: AnyBus
    system_bus: AnyBus
    load: Callable[[str], Any]

    @property
    def is_linux(self) -> bool:
        return self.system == "linux"

    @property
    def is_mac(self) -> bool:
        return self.system == "darwin"

    @property
    def is_windows(self) -> bool:
        return self.system == "win32"

    def close(self) -> None:
        """End the connections. Safe to repeat."""
        self.session_bus.close()
        self.system_bus.close()


def this_host() -> Host:
    """The computer that we run on."""
    session: AnyBus = NoBus()
    system: AnyBus = NoBus()
    if sys.platform == "linux":
        from engine.hardware.bus import Bus, session_bus_address, system_bus_address

        session, system = Bus(session_bus_address(os.environ)), Bus(system_bus_address(os.environ))
    return Host(sys.platform, Path("/"), os.environ, session, system, _load)


def _load(name: str) -> Any:
    """The library `name`.

    Raises:
        OSError: there is none.
    """
    library: Any = getattr(ctypes, "WinDLL", ctypes.CDLL)  # which only Windows has
    return library(name)
