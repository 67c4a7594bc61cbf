"""A kit from nothing to in use: fetched, unpacked, tried in a process of its own, and what is left when that fails."""

import asyncio
import importlib
import os
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from engine.contract.reasons import ReasonCode
from engine.contract.snapshot import KitState, Machine
from engine.core.clock import SystemClock
from engine.kit.errors import KitFault
from engine.kit.install import InUse, in_use, take_into_use, try_out, unpack, with_kit
from engine.kit.lock import KitLock
from engine.kit.service import KitParts, KitService
from engine.training.host import KIT_VARIABLE
from tests.helpers.guards import ExpectLog
from tests.helpers.kit_samples import Mirror, a_mirror, kit_of, lock_of, torch_like, wheel

pytestmark = pytest.mark.integration

IMPORTS_IT = (sys.executable, "-P", "-c", "import toytorch, toycompanion")
MACHINE = Machine(cores_logical=4)
FIELDS = {
    "system": {"linux": "linux", "win32": "windows", "darwin": "macos"}[sys.platform],
    "machine": "arm64" if os.uname().machine in ("arm64", "aarch64") else "x86_64",
    "python": f"3.{sys.version_info[1]}",
}


class Desk:
    """Listens."""

    def __init__(self) -> None:
        self.states: list[KitState] = []
        self.ready = asyncio.Event()
        self._news = asyncio.Event()

    def on_kit(self, state: KitState) -> None:
        self.states.append(state)
        self._news.set()

    def on_kit_ready(self) -> None:
        self.ready.set()

    async def until(self, *states: str) -> KitState:
        async with asyncio.timeout(30):
            while not self.states or self.states[-1].state not in states:
                self._news.clear()
                await self._news.wait()
        return self.states[-1]

    @property
    def seen(self) -> list[str]:
        return list(dict.fromkeys(state.state for state in self.states))


@pytest.fixture(autouse=True)
def no_kit_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KIT_VARIABLE, "")


@pytest.fixture
async def mirror() -> AsyncIterator[Mirror]:
    async with a_mirror(torch_like() | torch_like("2")) as mirror:
        yield mirror


def lock(version: str = "1") -> KitLock:
    return lock_of(toy=kit_of(torch_like(version), version, **FIELDS))


def service(
    home: Path, mirror: Mirror, *, kits: KitLock | None = None, test: Sequence[str] = IMPORTS_IT, included: bool = False
) -> tuple[KitService, Desk]:
    desk = Desk()
    parts = KitParts(home, SystemClock(), lambda: kits or lock(), lambda: included, lambda: [mirror.url], test)
    return KitService(parts, desk), desk


async def test_from_nothing_to_in_use(tmp_path: Path, mirror: Mirror) -> None:
    one, desk = service(tmp_path / "kit", mirror)
    assert (one.ready, one.reason.code if one.reason else None) == (False, ReasonCode.KIT_MISSING)
    one.offer(MACHINE)
    offered = desk.states[-1]
    assert (offered.state, offered.total_bytes, offered.done_bytes) == (
        "missing",
        sum(map(len, torch_like().values())),
        0,
    )
    one.want(MACHINE, "")
    one.want(MACHINE, "")
    await desk.until("ready")
    await desk.ready.wait()
    assert desk.seen == ["missing", "fetching", "unpacking", "testing", "ready"]
    assert (one.ready, one.reason) == (True, None)
    kit = in_use(tmp_path / "kit")
    assert kit is not None
    assert os.environ[KIT_VARIABLE] == str(tmp_path / "kit" / kit.folder)
    assert sorted(path.name for path in (tmp_path / "kit").iterdir()) == sorted(["kit.json", kit.folder])
    again, _ = service(tmp_path / "kit", mirror)
    assert again.state.state == "ready"
    await one.close()


async def test_where_torch_is_installed_nothing_is_wanted(tmp_path: Path, mirror: Mirror) -> None:
    one, desk = service(tmp_path / "kit", mirror, included=True)
    one.offer(MACHINE)
    one.want(MACHINE, "")
    assert (one.ready, desk.states, mirror.asked) == (True, [], [])


async def test_a_kit_that_does_not_run_is_removed_and_the_one_before_stays(
    tmp_path: Path, mirror: Mirror, expect_log: ExpectLog
) -> None:
    expect_log("engine.kit.service", match="does not run on this computer: No driver")
    home = tmp_path / "kit"
    first, desk = service(home, mirror)
    first.want(MACHINE, "")
    await desk.until("ready")
    before = in_use(home)
    (home / "kit.json").rename(home / "aside")
    broken = (sys.executable, "-P", "-c", "raise SystemExit('No driver')")
    second, desk = service(home, mirror, kits=lock("2"), test=broken)
    (home / "aside").rename(home / "kit.json")
    second.want(MACHINE, "")
    failed = await desk.until("failed")
    assert (failed.fault, failed.params) == ("test_failed", {"detail": "No driver"})
    assert in_use(home) == before
    assert sorted(path.name for path in home.iterdir() if path.is_dir()) == sorted(
        ["files", before.folder if before else ""]
    )
    third, desk = service(home, mirror, kits=lock("2"))
    assert third.ready  # with the one before


async def test_a_newer_kit_takes_the_place_of_the_one_before(tmp_path: Path, mirror: Mirror) -> None:
    home = tmp_path / "kit"
    for version in ("1", "2"):
        (home / "kit.json").rename(home / "aside") if version == "2" else None
        one, desk = service(home, mirror, kits=lock(version))
        (home / "aside").rename(home / "kit.json") if version == "2" else None
        one.want(MACHINE, "")
        await desk.until("ready")
    kit = in_use(home)
    assert kit is not None
    assert kit.version == "2"
    assert [path.name for path in home.iterdir() if path.is_dir()] == [kit.folder]


async def test_a_pause_is_shown_and_gone_on_with(tmp_path: Path, mirror: Mirror) -> None:
    mirror.holding = True
    one, desk = service(tmp_path / "kit", mirror)
    one.want(MACHINE, "")
    async with asyncio.timeout(20):
        await mirror.holds.wait()
    await one.pause()
    assert desk.states[-1].state == "paused"
    assert one.reason is not None
    mirror.holding = False
    mirror.let_go.set()
    one.want(MACHINE, "")
    await desk.until("ready")


async def test_a_fault_is_shown_and_another_try_helps(tmp_path: Path, mirror: Mirror, expect_log: ExpectLog) -> None:
    expect_log("engine.kit.service", match="could not be fetched")
    files, mirror.files = mirror.files, {}
    one, desk = service(tmp_path / "kit", mirror)
    one.want(MACHINE, "")
    failed = await desk.until("failed")
    assert failed.fault == "unreachable"
    assert msgspec.json.decode(msgspec.json.encode(failed), type=KitState) == failed
    mirror.files = files
    one.want(MACHINE, "")
    await desk.until("ready")


@pytest.mark.parametrize("place", ["unpack", "take_into_use"])
async def test_a_disk_that_fails_between_two_steps_is_told(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog, place: str
) -> None:
    expect_log("engine.kit.service", match="GB are free")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    one, desk = service(tmp_path / "kit", mirror)
    with monkeypatch.context() as full:
        full.setattr(f"engine.kit.service.{place}", fail)
        one.want(MACHINE, "")
        failed = await desk.until("failed")
    assert failed.fault == "disk_full"
    one.want(MACHINE, "")
    await desk.until("ready")


async def test_a_computer_without_a_kit_is_told_so(tmp_path: Path, mirror: Mirror, expect_log: ExpectLog) -> None:
    expect_log("engine.kit.service", match="no training kit for this computer")
    one, desk = service(tmp_path / "kit", mirror, kits=KitLock(1, {}))
    one.offer(MACHINE)
    assert desk.states[-1].state == "unusable"
    one.offer(MACHINE)
    assert len(desk.states) == 1


@pytest.mark.parametrize(
    "name",
    ["../out.py", "/etc/out.py", "a/../../out.py", "a\\..\\out.py", "C:/out.py", "../b.py"],
)
def test_a_wheel_that_would_leave_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    files = {"evil-1-py3-none-any.whl": wheel({name: b"x"})}
    (tmp_path / "evil-1-py3-none-any.whl").write_bytes(files["evil-1-py3-none-any.whl"])
    with pytest.raises(KitFault, match="has no place"):
        unpack(kit_of(files), tmp_path, tmp_path / "into", lambda fraction: None)
    assert not (tmp_path / "out.py").exists()


def test_a_wheel_that_unpacks_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.kit.install.FREE_BYTES", 1000)
    files = {"bomb-1-py3-none-any.whl": wheel({"zeros": bytes(3_000_000)})}
    (tmp_path / "bomb-1-py3-none-any.whl").write_bytes(files["bomb-1-py3-none-any.whl"])
    with pytest.raises(KitFault, match="far more"):
        unpack(kit_of(files), tmp_path, tmp_path / "into", lambda fraction: None)


def test_something_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    files = {"none-1-py3-none-any.whl": b"not a zip file"}
    (tmp_path / "none-1-py3-none-any.whl").write_bytes(b"not a zip file")
    with pytest.raises(KitFault) as failed:
        unpack(kit_of(files), tmp_path, tmp_path / "into", lambda fraction: None)
    assert failed.value.code == "unpack_failed"


def test_data_folders_of_a_wheel_go_where_python_looks(tmp_path: Path) -> None:
    members = {
        "a-1.data/purelib/pure.py": b"",
        "a-1.data/platlib/plat/x.py": b"",
        "a-1.data/scripts/run": b"",
        "a-1.data/headers/a.h": b"",
    }
    files = {"a-1-py3-none-any.whl": wheel(members)}
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(files["a-1-py3-none-any.whl"])
    unpack(kit_of(files), tmp_path, tmp_path / "into", lambda fraction: None)
    found = {
        path.relative_to(tmp_path / "into").as_posix() for path in (tmp_path / "into").rglob("*") if path.is_file()
    }
    assert found == {"pure.py", "plat/x.py"}


@pytest.mark.parametrize(
    "pointer",
    [b"", b"{", b"[]", b'{"name":"a","version":"1","folder":".."}', b'{"name":"a","version":"1","folder":"a/b"}'],
)
def test_a_pointer_that_is_not_sound_points_nowhere(tmp_path: Path, pointer: bytes) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "kit.json").write_bytes(pointer)
    assert in_use(tmp_path) is None


def test_a_kit_whose_folder_is_gone_is_not_in_use(tmp_path: Path) -> None:
    take_into_use(tmp_path, InUse("a", "1", "gone"))
    assert in_use(tmp_path) is None


def test_a_trial_that_hangs_or_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.kit.install.TEST_SECONDS", 0.2)
    with pytest.raises(KitFault, match="did not answer"):
        try_out(tmp_path, "cpu", (sys.executable, "-c", "import threading; threading.Event().wait()"))
    with pytest.raises(KitFault, match="No such file"):
        try_out(tmp_path, "cpu", (str(tmp_path / "nothing"),))


def test_a_kit_comes_before_what_else_there_is(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("print('the kit')")
    environment = with_kit(os.environ, tmp_path)
    said = subprocess.run([sys.executable, "-P", "-c", "import json"], env=environment, capture_output=True, check=True)
    assert said.stdout == b"the kit\n"
    assert importlib.util.find_spec("json") is not None


def test_the_samples_are_wheels() -> None:
    assert all(zipfile.is_zipfile(__import__("io").BytesIO(data)) for data in torch_like().values())
