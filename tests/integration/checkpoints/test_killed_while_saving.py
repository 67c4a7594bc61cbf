"""A process that is killed while it writes checkpoints leaves one that is whole."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.checkpoints.store import CheckpointStore

pytestmark = pytest.mark.integration

PARAMETERS = 400_000
MANIFEST_HASH = b"m" * 32
TRIALS = 6

SAVER = """
import sys
from pathlib import Path
from tests.integration.checkpoints.test_killed_while_saving import save_for_ever
save_for_ever(Path(sys.argv[1]))
"""


def save_for_ever(folder: Path) -> None:
    """The child: a new step's checkpoint again and again, each announced before and after it is written."""
    from engine.checkpoints.state import SharedState

    store = CheckpointStore(folder, MANIFEST_HASH, PARAMETERS)
    step = 0
    while True:
        step += 1
        weights = np.full(PARAMETERS, step, dtype=np.float32)
        moments = np.zeros(PARAMETERS, dtype=np.float32)
        state = SharedState(
            global_step=step, weights=weights, moment1=moments, moment2=moments, manifest_hash=MANIFEST_HASH
        )
        sys.stdout.write(f"begin {step}\n")
        sys.stdout.flush()
        store.save(state)
        sys.stdout.write(f"saved {step}\n")
        sys.stdout.flush()


@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_kill_while_saving_loses_at_most_the_one_being_written(tmp_path: Path, trial: int) -> None:
    root = Path(__file__).resolve().parents[3]
    child = subprocess.Popen([sys.executable, "-c", SAVER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root)
    assert child.stdout is not None
    begun = 0
    with child.stdout as lines:
        for line in lines:
            word, number = line.split()
            begun = int(number) if word == "begin" else begun
            if begun == 3 + trial:
                child.kill()  # it is inside, or just before, the write of this step
                break
        rest = [line.split() for line in lines]
    child.wait()
    saved = max([begun - 1, *(int(number) for word, number in rest if word == "saved")])
    store = CheckpointStore(tmp_path, MANIFEST_HASH, PARAMETERS)
    found = store.load_newest()
    assert found is not None
    assert store.skipped == ()
    assert found.global_step in (saved, saved + 1)
    assert (found.weights == found.global_step).all()
    assert not list(tmp_path.glob(".*.tmp"))
