"""Namespaces, routers and lines of one lab.

Every namespace's name begins with PREFIX and the lab's number, so that whatever a killed builder left is found and
removed by the next one. Addresses of the public side are from TEST-NET-2 (RFC 5737); homes use 192.168.0.0/16. Nothing
here reaches a real network: the public side is a bridge in a namespace of its own.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

PREFIX: Final = "potlab"
PUBLIC: Final = "198.51.100"
SERVER_ADDRESS: Final = f"{PUBLIC}.1"
COMMAND_SECONDS: Final = 20.0
NEEDED_PROGRAMS: Final = ("ip", "nft", "tc", "turnserver")


class Nat(StrEnum):
    """What a home's router does, in the words of RFC 4787."""

    NONE = "none"  # a public address
    PRESERVING = "port-preserving"  # endpoint-independent mapping in effect, address-and-port-dependent filtering
    RANDOM = "fully-random"  # a new port for each destination: the "symmetric" kind
    DOUBLE = "double"  # a carrier's router before the home's own
    NO_UDP = "no-udp"  # only TCP gets out


class LabUnavailable(RuntimeError):
    """This system cannot hold a lab; says why."""


def why_unavailable() -> str:
    """Empty when a lab can be built here."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in NEEDED_PROGRAMS if shutil.which(name, path=_path()) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def _path() -> str:
    return os.environ.get("PATH", "") + ":/sbin:/usr/sbin"


def run(*argv: str, text: str | None = None, check: bool = True) -> str:
    """A command of the system, bounded in time.

    Raises:
        LabUnavailable: it failed.
    """
    done = subprocess.run(
        argv,
        input=text,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        env={**os.environ, "PATH": _path()},
        check=False,
    )
    if check and done.returncode != 0:
        raise LabUnavailable(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


@dataclass
class Home:
    """A computer behind a router."""

    name: str  # of its namespace
    address: str
    nat: Nat
    routers: list[str] = field(default_factory=list)  # namespaces, the home's own first

    def command(self, *argv: str) -> list[str]:
        """`argv`, to be run there."""
        return ["ip", "netns", "exec", self.name, *argv]


class Lab:
    """Use as a context manager: what it builds is gone afterwards."""

    def __init__(self, number: int = 0) -> None:
        self.prefix = f"{PREFIX}{number}"
        self.server = f"{self.prefix}-pub"
        self.homes: list[Home] = []
        self._next_public = 10

    def __enter__(self) -> "Lab":
        remove_all(self.prefix)
        try:
            self._namespace(self.server)
            self._ip(self.server, "link", "add", "br0", "type", "bridge")
            self._ip(self.server, "addr", "add", f"{SERVER_ADDRESS}/24", "dev", "br0")
            self._ip(self.server, "link", "set", "br0", "up")
        except LabUnavailable:
            remove_all(self.prefix)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        remove_all(self.prefix)

    def add_home(self, nat: Nat, subnet: str = "") -> Home:
        """A home with a computer at `subnet`.2; two homes may have the very same subnet."""
        number = len(self.homes) + 1
        subnet = subnet or f"192.168.{number}"
        name = f"{self.prefix}-h{number}"
        self._namespace(name)
        home = Home(name, f"{subnet}.2", nat)
        if nat is Nat.NONE:
            home.address = self._join_public(name)
        elif nat is Nat.DOUBLE:
            carrier, router = f"{self.prefix}-c{number}", f"{self.prefix}-r{number}"
            home.routers = [router, carrier]
            self._router(carrier, f"100.64.{number}.1", Nat.PRESERVING)
            self._join_public(carrier, "wan")
            self._router(router, f"{subnet}.1", Nat.PRESERVING)
            self._wire(router, "wan", f"100.64.{number}.2", carrier, "lan")
            self._wire(name, "eth0", home.address, router, "lan")
        else:
            router = f"{self.prefix}-r{number}"
            home.routers = [router]
            self._router(router, f"{subnet}.1", nat)
            self._join_public(router, "wan")
            self._wire(name, "eth0", home.address, router, "lan")
        self.homes.append(home)
        return home

    def shape(self, home: Home, upload_bits: int, download_bits: int, buffer_milliseconds: int = 100) -> None:
        """Rates of a home's line, by token buckets in its router (in the computer itself where it has none)."""
        rates = [(home.routers[0], "wan", upload_bits), (home.routers[0], "lan", download_bits)] if home.routers else []
        for namespace, device, rate in rates or [(home.name, "eth0", upload_bits)]:
            run(
                *("ip", "netns", "exec", namespace, "tc", "qdisc", "replace", "dev", device, "root", "tbf"),
                *("rate", f"{rate}bit", "burst", "4000", "latency", f"{buffer_milliseconds}ms"),
            )

    def cut(self, home: Home, *, cut: bool) -> None:
        """Pull the home's cable, or plug it in again."""
        place = home.routers[-1] if home.routers else home.name
        run("ip", "-n", place, "link", "set", "wan" if home.routers else "eth0", "down" if cut else "up")
        if not cut and home.routers:
            run("ip", "-n", place, "route", "replace", "default", "via", SERVER_ADDRESS, check=False)

    def serve(self, *argv: str) -> list[str]:
        """`argv`, to be run on the public side."""
        return ["ip", "netns", "exec", self.server, *argv]

    # Parts.

    def _namespace(self, name: str) -> None:
        run("ip", "netns", "add", name)
        self._ip(name, "link", "set", "lo", "up")

    def _ip(self, namespace: str, *argv: str) -> None:
        run("ip", "-n", namespace, *argv)

    def _join_public(self, namespace: str, device: str = "eth0") -> str:
        address = f"{PUBLIC}.{self._next_public}"
        self._next_public += 1
        peer = f"p{self._next_public}"
        run("ip", "link", "add", device, "netns", namespace, "type", "veth", "peer", peer, "netns", self.server)
        self._ip(self.server, "link", "set", peer, "master", "br0")
        self._ip(self.server, "link", "set", peer, "up")
        self._ip(namespace, "addr", "add", f"{address}/24", "dev", device)
        self._ip(namespace, "link", "set", device, "up")
        self._ip(namespace, "route", "add", "default", "via", SERVER_ADDRESS)
        return address

    def _wire(self, inner: str, device: str, address: str, outer: str, outer_device: str) -> None:
        """A cable from `inner`'s `device` at `address` to a router's `outer_device`."""
        gateway = f"{address.rpartition('.')[0]}.1"
        run("ip", "link", "add", device, "netns", inner, "type", "veth", "peer", outer_device, "netns", outer)
        self._ip(outer, "addr", "add", f"{gateway}/24", "dev", outer_device)
        self._ip(outer, "link", "set", outer_device, "up")
        self._ip(inner, "addr", "add", f"{address}/24", "dev", device)
        self._ip(inner, "link", "set", device, "up")
        self._ip(inner, "route", "add", "default", "via", gateway)

    def _router(self, name: str, lan_address: str, nat: Nat) -> None:
        self._namespace(name)
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        run("ip", "netns", "exec", name, "nft", "-f", "-", text=_rules(nat))


def _rules(nat: Nat) -> str:
    """A home router's: masquerade outwards, nothing unasked inwards (or its table would take the port of a hole)."""
    masquerade = "masquerade fully-random" if nat is Nat.RANDOM else "masquerade"
    no_udp = 'meta l4proto udp oifname "wan" drop' if nat is Nat.NO_UDP else ""
    return f"""
table ip home {{
    chain post {{
        type nat hook postrouting priority srcnat;
        oifname "wan" {masquerade}
    }}
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname "wan" ct state established,related accept
        iifname "wan" drop
    }}
    chain forward {{
        type filter hook forward priority filter; policy accept;
        {no_udp}
        iifname "wan" ct state established,related accept
        iifname "wan" drop
    }}
}}
"""


def remove_all(prefix: str = PREFIX) -> None:
    """Every namespace of that prefix, with the processes in it: also what a killed lab left."""
    listed = run("ip", "netns", "list", check=False).split("\n")
    for name in [row.split()[0] for row in listed if row.startswith(prefix)]:
        for pid in run("ip", "netns", "pids", name, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        run("ip", "netns", "del", name, check=False)


TURN_SECRET: Final = "of the lab only"


@contextlib.contextmanager
def a_turn_server(
    lab: Lab, folder: Path, more: Sequence[str] = (), port: int = 3478
) -> Iterator[subprocess.Popen[bytes]]:
    """coturn on the public side, with the REST scheme's shared secret."""
    settings = [
        *("--listening-ip", SERVER_ADDRESS, "--relay-ip", SERVER_ADDRESS, "--listening-port", str(port)),
        *("--use-auth-secret", "--static-auth-secret", TURN_SECRET, "--realm", "potluck.test"),
        *("--no-tls", "--no-dtls", "--no-cli", "--no-multicast-peers", "--fingerprint", "--log-file", "stdout"),
        *(
            "--min-port",
            "50000",
            "--max-port",
            "50999",
            "--pidfile",
            str(folder / f"turn-{port}.pid"),
            "-c",
            os.devnull,
        ),
    ]
    command = lab.serve("turnserver", *settings, *more)
    with (folder / f"turn-{port}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
