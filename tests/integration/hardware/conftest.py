"""Real servers for the sensors: a message bus of our own with services on it, an X display, a Wayland compositor."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.hardware.bus import Bus

LIMIT_SECONDS = 20.0
SYSTEM_PYTHON = "/usr/bin/python3"
"""Which has dbusmock, from the distribution's package: it stands on libraries that pip would have to compile."""

SLEEPING_SERVICE = "org.example.Sleeping"
"""Not running; who starts it leaves the file "woken" in tmp_path."""

MOCK = "org.freedesktop.DBus.Mock"


class PrivateBus:
    """A message bus that nobody else knows, and the services that a test starts on it."""

    def __init__(self, address: str, stack: contextlib.ExitStack) -> None:
        self.address = address
        self.client = self.connect()
        self._stack = stack
        stack.callback(self.client.close)

    def connect(self, limit_seconds: float = LIMIT_SECONDS) -> Bus:
        return Bus(self.address, limit_seconds=limit_seconds)

    def template(self, name: str, service: str, **parameters: Any) -> "subprocess.Popen[bytes]":
        """One of python-dbusmock's templates; `service` is the name it takes."""
        return self._start(["--system", "--template", name, "--parameters", json.dumps(parameters)], service)

    def service(self, service: str, path: str, interface: str) -> "subprocess.Popen[bytes]":
        """An empty one, to which methods and properties are added."""
        return self._start([service, path, interface], service)

    def method(self, service: str, path: str, interface: str, name: str, returns: str, code: str) -> None:
        self.tell(service, path, "AddMethod", "sssss", (interface, name, "", returns, code))

    def property(self, service: str, path: str, interface: str, name: str, value: tuple[str, Any]) -> None:
        self.tell(service, path, "AddProperty", "ssv", (interface, name, value))

    def tell(self, service: str, path: str, method: str, signature: str, arguments: tuple[Any, ...]) -> Any:
        """Talk to the mock behind the service."""
        return self.client.call(service, path, MOCK, method, signature, arguments)

    def _start(self, arguments: list[str], service: str) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "DBUS_SESSION_BUS_ADDRESS": self.address,
            "DBUS_SYSTEM_BUS_ADDRESS": self.address,
        }
        process = subprocess.Popen(
            [SYSTEM_PYTHON, "-m", "dbusmock", *arguments], env=environment, stdout=subprocess.DEVNULL
        )
        self._stack.callback(process.wait, LIMIT_SECONDS)
        self._stack.callback(process.kill)
        wait = ["gdbus", "wait", "--address", self.address, "--timeout", "20", service]
        subprocess.run(wait, check=True, timeout=LIMIT_SECONDS, stdout=subprocess.DEVNULL)
        return process


@pytest.fixture
def private_bus(tmp_path: Path) -> Iterator[PrivateBus]:
    services = tmp_path / "share/dbus-1/services"
    services.mkdir(parents=True)
    wake = f"[D-BUS Service]\nName={SLEEPING_SERVICE}\nExec=/bin/sh -c '> {tmp_path / 'woken'}; exit 1'\n"
    (services / "sleeping.service").write_text(wake)
    with contextlib.ExitStack() as stack:
        daemon = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--print-address", f"--address=unix:path={tmp_path / 'bus'}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "share")},
        )
        assert daemon.stdout is not None
        stack.callback(daemon.stdout.close)
        stack.callback(daemon.wait, LIMIT_SECONDS)
        stack.callback(daemon.terminate)
        yield PrivateBus(daemon.stdout.readline().decode().strip(), stack)


@pytest.fixture
def x_display(tmp_path: Path) -> Iterator[str]:
    """A real X server without a screen, which keeps what it was told when its last client leaves."""
    read_end, write_end = os.pipe()
    command = ["Xvfb", "-displayfd", str(write_end), "-screen", "0", "320x240x24", "-nolisten", "tcp", "-noreset"]
    with contextlib.ExitStack() as stack:
        server = subprocess.Popen(
            command, pass_fds=[write_end], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path
        )
        stack.callback(server.wait, LIMIT_SECONDS)
        stack.callback(server.terminate)
        os.close(write_end)
        with os.fdopen(read_end) as number:
            yield f":{number.readline().strip()}"
