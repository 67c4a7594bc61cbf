"""The package as a volunteer gets it: `make bench-install` (root, Debian's tools). The last line is JSON.

A clean Debian tree is made by debootstrap, the package installed in it by apt, the window started under Xvfb as an
ordinary user, the training kit installed from a hub, a project joined there, a round verified; then the package is
replaced by one of the next version, removed, and what is left is counted.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.report import goal, line, rounded

ROOT: Final = Path(__file__).resolve().parents[2]
SUITE: Final = "bookworm"
USER: Final = "volunteer"
PATIENCE_SECONDS: Final = 300.0
GOAL_PACKAGE_BYTES: Final = 150e6
POLL_SECONDS: Final = 0.25


def say(text: str) -> None:
    """On standard error: the last line of standard output is the report."""
    sys.stderr.write(f"bench-install: {text}\n")
    sys.stderr.flush()


class Tree:
    """A Debian of its own below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(
        self, *argv: str, user: str = "root", check: bool = True, **more: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """A command in there."""
        return subprocess.run(self.command(*argv, user=user), check=check, capture_output=True, **more)

    def start(self, *argv: str, user: str = USER, log: Path) -> subprocess.Popen[bytes]:
        """A command that goes on."""
        with log.open("wb") as out:
            return subprocess.Popen(
                self.command(*argv, user=user), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def command(self, *argv: str, user: str) -> list[str]:
        """As the shell of this system sees it."""
        home = "/root" if user == "root" else f"/home/{user}"
        environment = {
            "HOME": home,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "DISPLAY": ":97",
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": f"{home}/.run",
        }
        given = [f"{name}={value}" for name, value in environment.items()]
        return ["chroot", f"--userspec={user}:{user}", str(self.root), "/usr/bin/env", "-i", *given, *argv]

    def files(self) -> set[str]:
        """Every file that the package or the user's use of it could have left."""
        found = set()
        for top in ("usr", "etc", "opt", "var/lib", "home", "tmp", "root"):
            for folder, _, names in os.walk(self.root / top):
                place = Path(folder).relative_to(self.root)
                if place.parts[:3] not in (("var", "lib", "apt"), ("var", "lib", "dpkg")):
                    found |= {str(place / name) for name in names}
        return found


@contextlib.contextmanager
def a_debian(folder: Path) -> Iterator[Tree]:
    """Made anew, with this system's package sources; gone afterwards."""
    root = folder / "debian"
    mirror = _mirror()
    subprocess.run(["debootstrap", "--variant=minbase", SUITE, root, mirror], check=True, capture_output=True)
    for path in _source_files():
        (root / "etc/apt/sources.list.d" / path.name).write_bytes(path.read_bytes())
    for place in ("apt.conf.d", "apt.conf"):
        source = Path("/etc/apt") / place
        if source.is_dir():
            shutil.copytree(source, root / "etc/apt" / place, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, root / "etc/apt" / place)
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
        shutil.copy(certificates, root / "etc/ssl/certs")
    for name in ("hosts", "resolv.conf"):
        shutil.copy(Path("/etc") / name, root / "etc" / name)
    mounts = [("proc", root / "proc", ["-t", "proc"]), ("/dev", root / "dev", ["--bind"])]
    try:
        for what, where, how in mounts:
            subprocess.run(["mount", *how, what, where], check=True)
        yield Tree(root)
    finally:
        for _, where, _ in reversed(mounts):
            subprocess.run(["umount", "--lazy", where], check=False, capture_output=True)


def _mirror() -> str:
    """Where this system gets its own packages."""
    for path in _source_files():
        for text in path.read_text().splitlines():
            if text.startswith(("URIs:", "deb ")):
                found = [word for word in text.split() if word.startswith(("http:", "https:", "file:"))]
                if found:
                    return found[0]
    raise SystemExit("bench-install: this system names no package source")


def _source_files() -> list[Path]:
    folder = Path("/etc/apt")
    found = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    found = [path for path in found if path.suffix in (".list", ".sources")]
    return [path for path in found if path.is_file() and path.stat().st_size]


def until(what: str, true: Any, seconds: float = PATIENCE_SECONDS) -> float:
    """Wait; how long it took.

    Raises:
        TimeoutError: it did not happen.
    """
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"{what} did not happen in {seconds:.0f} s")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def state_of(tree: Tree) -> dict[str, Any]:
    """The engine's state tree, empty while there is none."""
    said = tree.run("potluck", "status", "--json", user=USER, check=False)
    try:
        return dict(json.loads(said.stdout))
    except ValueError:
        return {}


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kits", type=Path, help="folder with the kit's files (default: fetched by pip)")
    parser.add_argument("--dist", type=Path, help="folder with packages built before (default: built now)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="potluck-install-") as temporary:
        figures = Bench(Path(temporary), options).run()
    left: list[str] = figures.pop("left")
    goals = {
        "package_bytes": goal(figures["package_bytes"], GOAL_PACKAGE_BYTES, "below"),
        "files_left": goal(float(len(left)), 0.0, "below"),
    }
    figures["files_left"] = left[:20]
    sys.stdout.write(line("install", figures, goals) + "\n")
    return 0


class Bench:
    """One run."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.dist = options.dist or folder / "dist"
        self.kits = options.kits or folder / "kits"
        self.figures: dict[str, Any] = {}
        self.processes: list[subprocess.Popen[bytes]] = []

    def run(self) -> dict[str, Any]:
        """The figures."""
        self._build()
        say("a clean Debian tree")
        with a_debian(self.folder) as tree:
            try:
                self._use(tree)
            finally:
                for process in self.processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, 9)
        return self.figures

    def _build(self) -> None:
        for version in ("0.1.0", "0.1.1"):
            if not list(self.dist.glob(f"potluck_{version}_*.deb")):
                say(f"building package {version}")
                command = [sys.executable, "packaging/linux/build_deb.py", str(self.dist), "--version", version]
                subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        if not self.kits.exists():
            say("fetching the kit's files")
            lock = self.folder / "lock.json"
            command = [sys.executable, "packaging/kit/make_lock.py", "any", "cpu", str(self.kits), "--lock", str(lock)]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        self.package, self.newer = (next(self.dist.glob(f"potluck_{v}_*.deb")) for v in ("0.1.0", "0.1.1"))
        self.figures["package_bytes"] = self.package.stat().st_size

    def _use(self, tree: Tree) -> None:
        tree.run("apt-get", "update", "-qq")
        tree.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "xvfb", "procps", "dbus", "x11-utils")
        tree.run("useradd", "--create-home", "--user-group", USER)
        tree.run("mkdir", "-m", "700", f"/home/{USER}/.run", user=USER)
        self._install(tree, self.package)
        known = tree.files()
        self._window(tree)
        self._train(tree)
        self._update(tree)
        self._remove(tree, known)

    def _install(self, tree: Tree, package: Path) -> None:
        before = tree.files() if not self.figures.get("installed") else set()
        shutil.copy(package, tree.root / "tmp")
        began = time.monotonic()
        name = f"/tmp/{package.name}"
        tree.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", name)
        self.figures["install_seconds"] = rounded(time.monotonic() - began)
        (tree.root / "tmp" / package.name).unlink()
        self.before = before or self.before
        home = tree.root / "usr/lib/potluck"
        self.figures["installed_bytes"] = sum(p.stat().st_size for p in home.rglob("*") if p.is_file())
        self.figures["installed"] = True

    def _window(self, tree: Tree) -> None:
        say("the window")
        self._start(tree, "Xvfb", ":97", "-screen", "0", "1280x800x24", "-nolisten", "tcp")
        until("the display", lambda: tree.run("xdpyinfo", user=USER, check=False).returncode == 0, 30)
        began = time.monotonic()
        self._start(tree, "potluck-window")
        tell = ("xwininfo", "-root", "-tree")
        until("the window", lambda: b'"Potluck"' in tree.run(*tell, user=USER, check=False).stdout, 60)
        self.figures["first_window_seconds"] = rounded(time.monotonic() - began)
        until("the engine", lambda: bool(state_of(tree)), 60)

    def _train(self, tree: Tree) -> None:
        say("a hub with the kit, and another volunteer beside it")
        hub = [
            sys.executable,
            "-m",
            "engine.runtime.cli",
            "--data-dir",
            str(self.folder / "hub"),
            "hub",
            "--port",
            "8497",
        ]
        self._start_here(*hub, "--bundled", "--kits", str(self.kits))
        url = "http://127.0.0.1:8497"
        other = [sys.executable, "-m", "engine.runtime.cli", "--data-dir", str(self.folder / "other"), "run"]
        self._start_here(*other, "--no-keyring", "--unattended", "--hub", url, "--join", "pocket-python")
        for name, value in (("hub_url", url), ("pause_while_in_use", "false"), ("foreign_cpu_percent", "0")):
            tree.run("potluck", "set", name, value, user=USER)
        began = time.monotonic()
        until(
            "joining", lambda: tree.run("potluck", "join", "pocket-python", user=USER, check=False).returncode == 0, 60
        )
        until("the kit", lambda: state_of(tree).get("kit", {}).get("state") in ("ready", "failed", "unusable"))
        kit = state_of(tree)["kit"]
        if kit["state"] != "ready":
            raise RuntimeError(f"the kit: {kit}")
        self.figures["kit_bytes"] = kit["total_bytes"]
        self.figures["kit_seconds"] = rounded(time.monotonic() - began)
        until("a verified round", lambda: (state_of(tree).get("today") or {}).get("tokens_accepted", 0) > 0)
        self.figures["join_to_verified_round_seconds"] = rounded(time.monotonic() - began)

    def _update(self, tree: Tree) -> None:
        say("the next version")
        rounds = state_of(tree)["session"]["rounds_committed"]
        peer_id = state_of(tree)["engine"]["peer_id"]
        self._install(tree, self.newer)
        until("the old version's end", lambda: not state_of(tree), 60)
        self._start(tree, "potluck-window")
        until("the new version", lambda: (state_of(tree).get("engine") or {}).get("version") == "0.1.1", 90)
        after = state_of(tree)
        if after["engine"]["peer_id"] != peer_id or after["kit"]["state"] != "ready" or rounds < 1:
            raise RuntimeError("the update lost the volunteer's identity or kit")
        until("training after the update", lambda: (state_of(tree).get("session") or {}).get("rounds_committed", 0) > 0)

    def _remove(self, tree: Tree, known: set[str]) -> None:
        say("removing it")
        tree.run("pkill", "-TERM", "-u", USER, "-f", "python3 -P -m app", check=False)
        until("the window's end", lambda: not self._window_lives(tree), 60)
        tree.run("potluck", "forget", "--yes", user=USER)
        tree.run("apt-get", "purge", "-y", "-qq", "potluck")
        tree.run("apt-get", "autoremove", "--purge", "-y", "-qq")
        until("the end of all", lambda: not self._alive(tree), 60)
        ours = tree.files() - self.before
        cached = ("var/cache/", "var/log/", f"home/{USER}/.run/")
        own_words = ("usr/share/icons/hicolor/icon-theme.cache", "usr/share/applications/mimeinfo.cache")
        self.figures["left"] = sorted(
            p for p in ours if not p.startswith(cached) and p not in own_words and "X9" not in p
        )

    def _window_lives(self, tree: Tree) -> bool:
        return tree.run("pgrep", "-u", USER, "-f", "python3 -P -m app", check=False).returncode == 0

    def _alive(self, tree: Tree) -> bool:
        return tree.run("pgrep", "-u", USER, "-f", "potluck|engine.runtime|-m app", check=False).returncode == 0

    def _start(self, tree: Tree, *argv: str) -> None:
        self.processes.append(tree.start(*argv, log=self.folder / f"{len(self.processes)}.log"))

    def _start_here(self, *argv: str) -> None:
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            )


if __name__ == "__main__":
    sys.exit(main())
