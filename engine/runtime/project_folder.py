"""A project's folder on this computer: its signed manifest beside its checkpoints, so that each can be read alone."""

from pathlib import Path
from typing import Final

import msgspec

from engine.core.errors import UserError
from engine.core.files import write_atomic
from engine.core.paths import Paths
from engine.manifest.errors import ManifestError
from engine.manifest.schema import MAX_MANIFEST_BYTES, SignedManifest
from engine.manifest.verify import VerifiedManifest, open_signed

MANIFEST_NAME: Final = "manifest.json"
CHECKPOINTS_NAME: Final = "checkpoints"
SCRATCH_NAME: Final = "scratch"


def keep_manifest(folder: Path, signed: SignedManifest) -> None:
    """Write the manifest, as it was signed.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(folder / MANIFEST_NAME, msgspec.json.encode(signed))


def known_projects(paths: Paths) -> dict[Path, VerifiedManifest]:
    """Every project folder of this profile whose manifest is sound, the latest used first."""
    root = paths.data_dir / "projects"
    if not root.is_dir():
        return {}
    folders = sorted(root.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    found = {}
    for folder in folders:
        try:
            file = folder / MANIFEST_NAME
            if file.stat().st_size > 2 * MAX_MANIFEST_BYTES:
                continue
            found[folder] = open_signed(msgspec.json.decode(file.read_bytes(), type=SignedManifest))
        except (OSError, ManifestError, msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found


def find_project(paths: Paths, wanted: str | None) -> tuple[Path, VerifiedManifest]:
    """The folder of a project by name or id; by default the latest used.

    Raises:
        UserError: there is no such project here.
    """
    known = known_projects(paths)
    for folder, project in known.items():
        if wanted in (None, project.manifest.name, project.project_id):
            return folder, project
    if wanted is None or not known:
        raise UserError(f"No project was trained in {paths.data_dir} yet.", "Join one first.")
    names = ", ".join(sorted({project.manifest.name for project in known.values()}))
    raise UserError(f"There is no project {wanted!r} here.", f"Known here: {names}.")
