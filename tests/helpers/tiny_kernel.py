"""A real kernel on the tiny project, with text of its own. Loads torch."""

from pathlib import Path

import numpy as np
import torch

from engine.data.python_stdlib import Text
from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest
from engine.strategies.collaborative.kernel import CollaborativeKernel
from engine.training.buffers import SharedVectors
from engine.training.models import build_model

PEER = "a" * 52


def tiny_text() -> Text:
    """Two parts that share no byte value."""
    training = np.frombuffer(b"abcdefgh" * 500, dtype=np.uint8)
    held_out = np.frombuffer(b"ABCDEFGH" * 100, dtype=np.uint8)
    return Text(training=training, held_out=held_out)


def initial_weights(manifest: Manifest, seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Small noise, with ones where the manifest says so; float32 [parameter_count]."""
    generator = np.random.default_rng(seed)
    parts = []
    for tensor in manifest.model.tensors:
        size = int(np.prod(tensor.shape))
        ones = tensor.initial.kind == "ones"
        parts.append(np.ones(size) if ones else generator.uniform(-tensor.initial.bound, tensor.initial.bound, size))
    return np.concatenate(parts).astype(np.float32)


def make_kernel(folder: Path, manifest: Manifest, device: str = "cpu") -> tuple[CollaborativeKernel, SharedVectors]:
    """Weights are in the buffer, not yet loaded."""
    torch.set_num_threads(1)
    vectors = SharedVectors.create(folder, parameter_count(manifest))
    vectors.weights[:] = initial_weights(manifest)
    module = build_model(manifest.model).to(torch.device(device))
    return CollaborativeKernel(module, manifest, tiny_text(), vectors, PEER), vectors
