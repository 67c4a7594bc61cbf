"""A project's folder: found by name and id, the latest first, and never trusted."""

import os
from pathlib import Path

import msgspec
import pytest

from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.manifest.schema import MAX_MANIFEST_BYTES
from engine.manifest.verify import open_signed
from engine.runtime.bundled import bundled_manifests
from engine.runtime.project_folder import MANIFEST_NAME, find_project, keep_manifest, known_projects
from tests.helpers.hub_samples import identity, sealed


def keep(paths: Paths, name: str, used_at: float) -> str:
    signed = sealed(identity(9), name=name)
    project_id = open_signed(signed).project_id
    folder = paths.project_dir(project_id)
    keep_manifest(folder, signed)
    os.utime(folder, (used_at, used_at))
    return project_id


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "profile")


def test_nothing_was_trained_yet(paths: Paths) -> None:
    assert known_projects(paths) == {}
    with pytest.raises(UserError, match="No project was trained"):
        find_project(paths, None)
    with pytest.raises(UserError, match="No project was trained"):
        find_project(paths, "tides")


def test_the_latest_by_default_and_any_by_name_or_id(paths: Paths) -> None:
    old = keep(paths, "tides", 1000.0)
    new = keep(paths, "songs", 2000.0)
    assert [project.manifest.name for project in known_projects(paths).values()] == ["songs", "tides"]
    assert find_project(paths, None)[1].project_id == new
    assert find_project(paths, "tides")[1].project_id == old
    assert find_project(paths, old)[0] == paths.project_dir(old)
    with pytest.raises(UserError, match="no project 'birds' here") as caught:
        find_project(paths, "birds")
    assert caught.value.action == "Known here: songs, tides."


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\xff\xfe", b"null", b"[" * 10_000, b'"' + b"x" * (3 * MAX_MANIFEST_BYTES) + b'"']
)
def test_a_damaged_folder_is_passed_over(paths: Paths, data: bytes) -> None:
    good = keep(paths, "tides", 1000.0)
    bad = paths.data_dir / "projects" / ("ab" * 32)
    bad.mkdir()
    (bad / MANIFEST_NAME).write_bytes(data)
    (paths.data_dir / "projects" / "a file").write_bytes(b"x")
    assert [project.project_id for project in known_projects(paths).values()] == [good]


def test_a_forged_manifest_is_passed_over(paths: Paths) -> None:
    project_id = keep(paths, "tides", 1000.0)
    file = paths.project_dir(project_id) / MANIFEST_NAME
    signed = sealed(identity(9), name="tides")
    other = sealed(identity(9), name="songs")
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(signed, payload=other.payload)))
    assert known_projects(paths) == {}


def test_the_manifest_is_kept_as_it_was_signed(paths: Paths) -> None:
    signed = sealed(identity(9), name="tides")
    folder = paths.project_dir(open_signed(signed).project_id)
    keep_manifest(folder, signed)
    keep_manifest(folder, signed)
    assert [file.name for file in folder.iterdir()] == [MANIFEST_NAME]
    assert open_signed(msgspec.json.decode((folder / MANIFEST_NAME).read_bytes(), type=type(signed))).publisher_id


def test_the_bundled_projects_are_sound() -> None:
    manifests = bundled_manifests()
    assert "pocket-python" in {manifest.name for manifest in manifests}
    assert len({manifest.name for manifest in manifests}) == len(manifests)
