"""`potluck export`: the newest checkpoint of a project as a folder that `transformers` loads."""

import argparse
import sys

from engine.checkpoints.store import CheckpointStore
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.manifest.parse import parameter_count
from engine.runtime.project_folder import CHECKPOINTS_NAME, find_project


def run_export(paths: Paths, options: argparse.Namespace) -> int:
    """Write the folder. Works while the engine runs: checkpoints are only ever replaced whole.

    Raises:
        UserError: no such project, no checkpoint yet, or the folder cannot be written.
    """
    folder, project = find_project(paths, options.project)
    count = parameter_count(project.manifest)
    state = CheckpointStore(folder / CHECKPOINTS_NAME, project.manifest_hash, count, writer=False).load_newest()
    if state is None:
        raise UserError(
            f"{project.manifest.title} has no saved model here yet.",
            "One is saved every few rounds and when the engine stops.",
        )
    from engine.checkpoints.export import export_pretrained  # torch is loaded only for this

    out = options.folder.expanduser().absolute()
    export_pretrained(state, project.manifest, out)
    sys.stdout.write(f"{project.manifest.title} at step {state.global_step} is in {out}\n")
    return 0
