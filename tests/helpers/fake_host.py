"""Computers made of files and answers, for the sensors' tests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.hardware.host import Host, NoBus


class FakeBus:
    """Answers from two tables and remembers what it was asked. Real services are in the integration tests."""

    def __init__(
        self,
        properties: Mapping[tuple[str, str], Any] | None = None,
        replies: Mapping[tuple[str, str], tuple[Any, ...]] | None = None,
    ) -> None:
        self.properties = dict(properties or {})  # by interface and name, or path and name
        self.replies = dict(replies or {})  # by service and method
        self.asked: list[str] = []
        self.closed = False

    @property
    def there(self) -> bool:
        return True

    def get(self, service: str, path: str, interface: str, name: str) -> Any:
        self.asked.append(f"{service} {name}")
        return self.properties.get((path, name), self.properties.get((interface, name)))

    def call(
        self, service: str, path: str, interface: str, method: str, signature: str = "", arguments: tuple[Any, ...] = ()
    ) -> tuple[Any, ...]:
        self.asked.append(f"{service} {method}")
        return self.replies.get((service, method), ())

    def close(self) -> None:
        self.closed = True


def _no_library(name: str) -> Any:
    raise OSError(f"no library {name}")


def fake_host(
    root: Path,
    *,
    system: str = "linux",
    environment: Mapping[str, str] | None = None,
    session_bus: Any = None,
    system_bus: Any = None,
    load: Callable[[str], Any] = _no_library,
) -> Host:
    """A computer whose /sys and /proc are below `root`."""
    return Host(system, root, environment or {}, session_bus or NoBus(), system_bus or NoBus(), load)


def write_tree(folder: Path, files: Mapping[str, str | int]) -> Path:
    """Files by their path below `folder`, each with a line end as the kernel writes them."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return folder
