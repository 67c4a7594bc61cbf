"""The shared model as one engine holds it: steps, what is served to laggards, and what is refused from them."""

from pathlib import Path

import numpy as np
import pytest

from engine.averaging.kernels import NonFiniteGradient, apply_step, initial_state, weights_hash
from engine.checkpoints.store import CheckpointStore
from engine.checkpoints.transfer import from_blob
from engine.core.errors import PeerError
from engine.manifest.parse import parameter_count
from engine.runtime.model import MAX_DELTAS, ModelState
from tests.helpers.run_session import project
from tests.helpers.virtual_time import virtual_time

PROJECT = project()
COUNT = parameter_count(PROJECT.manifest)


def gradient(number: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.random.default_rng(number).standard_normal(COUNT).astype(np.float32)


async def a_model(folder: Path, steps: int = 0, first: int = 0) -> ModelState:
    model = ModelState(PROJECT, CheckpointStore(folder, PROJECT.manifest_hash, COUNT))
    await model.load()
    for step in range(steps):
        await model.apply(gradient(first + step))
    return model


@virtual_time
async def test_it_begins_with_the_manifests_weights_and_steps_by_the_manifests_optimizer(tmp_path: Path) -> None:
    model = await a_model(tmp_path)
    expected = initial_state(PROJECT.manifest.model, PROJECT.manifest_hash)
    assert model.weights_hash == weights_hash(expected.weights)
    for step in range(3):
        await model.apply(gradient(step))
        expected = apply_step(expected, gradient(step), PROJECT.manifest.optimizer)
    assert (model.global_step, model.weights_hash) == (3, weights_hash(expected.weights))


def test_before_loading_there_is_no_state(tmp_path: Path) -> None:
    model = ModelState(PROJECT, CheckpointStore(tmp_path, PROJECT.manifest_hash, COUNT))
    with pytest.raises(RuntimeError, match="not loaded"):
        _ = model.state


@virtual_time
async def test_a_gradient_that_is_no_number_changes_nothing(tmp_path: Path) -> None:
    model = await a_model(tmp_path, 2)
    before = model.weights_hash
    bad = gradient(9)
    bad[7] = np.nan
    with pytest.raises(NonFiniteGradient):
        await model.apply(bad)
    assert (model.global_step, model.weights_hash) == (2, before)
    blob = await model.blob_from(0)
    assert len(blob.data) == 2 * 4 * COUNT


@virtual_time
async def test_a_laggard_gets_the_steps_it_missed(tmp_path: Path) -> None:
    ahead = await a_model(tmp_path / "a", 5)
    behind = await a_model(tmp_path / "b", 2)
    blob = await ahead.blob_from(2)
    assert (blob.kind, blob.from_step, blob.global_step, len(blob.data)) == ("deltas", 2, 5, 3 * 4 * COUNT)
    await behind.adopt_deltas(blob.data, 2, 5, blob.weights_hash)
    assert (behind.global_step, behind.weights_hash) == (5, ahead.weights_hash)
    third = await a_model(tmp_path / "c", 2)  # and can pass them on
    await third.adopt_deltas((await behind.blob_from(2)).data, 2, 5, ahead.weights_hash)
    assert third.weights_hash == ahead.weights_hash


@pytest.mark.parametrize("from_step", [None, 5, 6, 2**53])
def test_others_get_the_whole_state(tmp_path: Path, from_step: int | None) -> None:
    @virtual_time
    async def run() -> None:
        ahead = await a_model(tmp_path / "a", 5)
        blob = await ahead.blob_from(from_step)
        assert blob.kind == "state"
        behind = await a_model(tmp_path / "b", 1)
        await behind.adopt_state(from_blob(blob.data, PROJECT.manifest_hash, COUNT), blob.weights_hash)
        assert (behind.global_step, behind.weights_hash) == (5, ahead.weights_hash)

    run()


@virtual_time
async def test_only_so_many_steps_are_kept(tmp_path: Path) -> None:
    ahead = await a_model(tmp_path, MAX_DELTAS + 2)
    assert (await ahead.blob_from(1)).kind == "state"
    blob = await ahead.blob_from(2)
    assert (blob.kind, len(blob.data)) == ("deltas", MAX_DELTAS * 4 * COUNT)


@virtual_time
async def test_after_a_whole_state_its_earlier_steps_are_not_served(tmp_path: Path) -> None:
    ahead = await a_model(tmp_path / "a", 5)
    behind = await a_model(tmp_path / "b", 2, first=50)  # on a branch of its own
    blob = await ahead.blob_from(None)
    await behind.adopt_state(from_blob(blob.data, PROJECT.manifest_hash, COUNT), blob.weights_hash)
    assert (await behind.blob_from(1)).kind == "state"


@virtual_time
async def test_steps_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    ahead = await a_model(tmp_path / "a", 5)
    behind = await a_model(tmp_path / "b", 2)
    forked = await a_model(tmp_path / "c", 2, first=50)
    blob = await ahead.blob_from(2)
    bad = np.frombuffer(blob.data, dtype="<f4").copy()
    bad[3] = np.inf
    refused = [
        (behind, blob.data, 1, 4, blob.weights_hash),
        (behind, blob.data[:-4], 2, 5, blob.weights_hash),
        (behind, blob.data, 2, 6, blob.weights_hash),
        (behind, blob.data, 2, 5, bytes(32)),
        (behind, bad.tobytes(), 2, 5, blob.weights_hash),
        (forked, blob.data, 2, 5, blob.weights_hash),
    ]
    for model, data, from_step, to_step, digest in refused:
        before = (model.global_step, model.weights_hash, weights_hash(model.state.weights))
        with pytest.raises((PeerError, NonFiniteGradient)):
            await model.adopt_deltas(data, from_step, to_step, digest)
        assert (model.global_step, model.weights_hash, weights_hash(model.state.weights)) == before


@virtual_time
async def test_a_state_with_other_weights_than_announced_changes_nothing(tmp_path: Path) -> None:
    ahead = await a_model(tmp_path / "a", 5)
    behind = await a_model(tmp_path / "b", 2)
    before = behind.weights_hash
    with pytest.raises(PeerError, match="announced"):
        await behind.adopt_state(ahead.state, bytes(32))
    assert (behind.global_step, behind.weights_hash) == (2, before)


@virtual_time
async def test_saving_once_a_step_and_loading_again(tmp_path: Path) -> None:
    model = await a_model(tmp_path, 3)
    assert model.saved_step is None
    await model.save()
    (file,) = tmp_path.glob("step-*")
    written = file.stat().st_mtime_ns
    await model.save()
    assert file.stat().st_mtime_ns == written
    again = await a_model(tmp_path)
    assert (again.global_step, again.weights_hash, again.saved_step) == (3, model.weights_hash, 3)
    await again.apply(gradient(3))
    await model.apply(gradient(3))
    assert again.weights_hash == model.weights_hash  # the moments came along


@virtual_time
async def test_a_damaged_checkpoint_is_told_and_the_one_before_used(tmp_path: Path, expect_log: object) -> None:
    expect_log("engine.checkpoints.store")  # type: ignore[operator]
    model = await a_model(tmp_path, 1)
    await model.save()
    await model.apply(gradient(1))
    await model.save()
    (newest,) = tmp_path.glob("step-*2.safetensors")
    newest.write_bytes(newest.read_bytes()[:-100])
    again = await a_model(tmp_path)
    assert again.global_step == 1
    assert [skipped.path.name for skipped in again.damaged] == [newest.name]
