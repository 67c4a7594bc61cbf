import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from engine.data.assignment import sample_offsets
from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest
from engine.strategies.collaborative.kernel import CollaborativeKernel, NonFiniteError, Totals
from engine.training.buffers import SharedVectors
from engine.training.models import build_model
from tests.helpers.tiny_kernel import PEER, initial_weights, make_kernel, tiny_text
from tests.helpers.tiny_project import tiny_manifest

LENGTH = 32
BATCH = 4


def reference_gradients(manifest: Manifest, step: int, micro_batches: list[int]) -> tuple[np.ndarray, float]:
    """Sample by sample and without the kernel: sum of per-sample mean-loss gradients, and the summed loss in nats."""
    module = build_model(manifest.model).eval()
    weights, begin = torch.from_numpy(initial_weights(manifest)), 0
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(weights[begin : begin + parameter.numel()].view(parameter.shape))
            begin += parameter.numel()
    text = tiny_text().training
    loss_sum = 0.0
    for micro in micro_batches:
        for offset in sample_offsets(manifest.model.seed, PEER, step, micro, BATCH, text.size - LENGTH):
            tokens = torch.from_numpy(text[offset : offset + LENGTH + 1].astype(np.int64))[None]
            loss = functional.cross_entropy(module(input_ids=tokens[:, :-1]).logits[0], tokens[0, 1:])
            torch.autograd.backward(loss)
            loss_sum += loss.item() * LENGTH
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    return torch.cat([gradient.flatten() for gradient in gradients]).numpy(), loss_sum


def loaded(folder: Path, step: int = 0) -> tuple[CollaborativeKernel, np.ndarray]:
    kernel, vectors = make_kernel(folder, tiny_manifest())
    kernel.load(step)
    return kernel, vectors.gradients


def test_gradients_are_the_sum_over_samples(tmp_path: Path) -> None:
    kernel, buffer = loaded(tmp_path, step=3)
    kernel.accumulate()
    totals = kernel.accumulate()
    assert not buffer.any()
    kernel.flush()
    expected, loss_sum = reference_gradients(tiny_manifest(), 3, [0, 1])
    np.testing.assert_allclose(buffer, expected, rtol=1e-4, atol=1e-6)
    assert totals.samples == 2 * BATCH
    assert totals.tokens == 2 * BATCH * LENGTH
    assert totals.loss_sum == pytest.approx(loss_sum, rel=1e-5)


def test_zero_begins_again_with_the_same_samples(tmp_path: Path) -> None:
    kernel, buffer = loaded(tmp_path)
    kernel.accumulate()
    kernel.flush()
    first = buffer.copy()
    kernel.zero()
    assert kernel.totals == Totals()
    kernel.accumulate()
    kernel.flush()
    assert first.any()
    assert np.array_equal(buffer, first)


def test_a_change_of_weights_counts_only_after_load(tmp_path: Path) -> None:
    kernel, vectors = make_kernel(tmp_path, tiny_manifest())
    kernel.load(0)
    before = kernel.accumulate().loss_sum
    kernel.zero()
    vectors.weights[:] = 0.0
    assert kernel.accumulate().loss_sum == before
    kernel.zero()
    kernel.load(0)
    assert kernel.accumulate().loss_sum == pytest.approx(BATCH * LENGTH * math.log(256), rel=1e-5)


@pytest.mark.parametrize("bad", [(np.nan,), (np.inf,), (np.inf, -np.inf)])
def test_a_gradient_without_numbers_is_found_though_the_loss_is_one(tmp_path: Path, bad: tuple[float, ...]) -> None:
    manifest = tiny_manifest()
    vectors = SharedVectors.create(tmp_path, parameter_count(manifest))
    vectors.weights[:] = initial_weights(manifest)
    module = build_model(manifest.model)

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        spoilt = gradient.clone()
        spoilt.view(-1)[: len(bad)] = torch.tensor(bad)
        return spoilt

    next(module.parameters()).register_hook(spoil)
    kernel = CollaborativeKernel(module, manifest, tiny_text(), vectors, PEER)
    kernel.load(0)
    with pytest.raises(NonFiniteError, match=r"loss \d"):
        kernel.accumulate()


def test_a_micro_batch_without_numbers_drops_everything_and_the_next_uses_other_samples(tmp_path: Path) -> None:
    kernel, vectors = make_kernel(tmp_path, tiny_manifest())
    kernel.load(0)
    kernel.accumulate()
    vectors.weights[5] = np.inf
    kernel.load(0)
    with pytest.raises(NonFiniteError, match="micro-batch 1"):
        kernel.accumulate()
    assert kernel.totals == Totals()
    vectors.weights[:] = initial_weights(tiny_manifest())
    kernel.load(0)
    kernel.accumulate()
    kernel.flush()
    expected, _ = reference_gradients(tiny_manifest(), 0, [2])
    np.testing.assert_allclose(vectors.gradients, expected, rtol=1e-4, atol=1e-6)


def test_evaluation_sees_only_held_out_text_and_leaves_no_trace(tmp_path: Path) -> None:
    kernel, vectors = make_kernel(tmp_path, tiny_manifest())
    vectors.weights[:] = 0.0
    kernel.load(0)
    results = list(kernel.evaluate())
    assert len(results) == 2
    assert results[-1][0] == pytest.approx(math.log(256), rel=1e-5)
    assert results[-1][1] == 8 * LENGTH
    kernel.flush()
    assert not vectors.gradients.any()
    assert kernel.totals == Totals()


def test_training_text_is_learnt_and_held_out_text_is_not(tmp_path: Path) -> None:
    """The held-out part has other letters, so a leak either way would show."""
    kernel, vectors = make_kernel(tmp_path, tiny_manifest())
    for step in range(40):
        kernel.load(step)
        kernel.zero()
        totals = kernel.accumulate()
        kernel.flush()
        norm = float(np.linalg.norm(vectors.gradients))
        vectors.weights -= 0.5 * vectors.gradients / max(norm, 1e-6)
    assert totals.loss_sum / totals.tokens < 2.5
    kernel.load(40)
    *_, (loss, _) = kernel.evaluate()
    assert loss > 5.0


@pytest.mark.parametrize("max_tokens", [1, 7, 8, 50])
def test_writing_gives_what_was_asked_for_and_the_same_again(tmp_path: Path, max_tokens: int) -> None:
    kernel, _ = make_kernel(tmp_path, tiny_manifest())
    kernel.load(4)
    texts = list(kernel.write("import é", max_tokens))
    assert texts == list(kernel.write("import é", max_tokens))
    assert len(texts) == -(-max_tokens // 8)
    assert 1 <= len(texts[-1]) <= max_tokens
    kernel.load(5)
    assert max_tokens < 8 or list(kernel.write("import é", max_tokens)) != texts


def test_writing_needs_no_prompt_and_bears_a_long_one(tmp_path: Path) -> None:
    kernel, _ = make_kernel(tmp_path, tiny_manifest())
    kernel.load(0)
    assert list(kernel.write("", 4))[-1]
    assert list(kernel.write("x" * 5000, 4))[-1]


def test_a_buffer_of_another_size_is_refused(tmp_path: Path) -> None:
    kernel, vectors = make_kernel(tmp_path, tiny_manifest())
    vectors.weights = vectors.weights[:-1]
    with pytest.raises(ValueError, match="parameters"):
        CollaborativeKernel(build_model(tiny_manifest().model), tiny_manifest(), tiny_text(), vectors, PEER)
    del kernel
