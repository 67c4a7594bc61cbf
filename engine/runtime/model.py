"""The shared model as this engine holds it: master weights, their hash, recent steps for laggards, checkpoints.

One task uses a `ModelState` at a time; heavy numpy work runs in a thread while that task waits.
"""

import asyncio
import hashlib
import logging
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from engine.averaging.kernels import apply_step, initial_state, weights_hash
from engine.checkpoints.state import SharedState, Vector
from engine.checkpoints.store import CheckpointStore, Skipped
from engine.checkpoints.transfer import to_blob
from engine.core.errors import PeerError
from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest
from engine.manifest.verify import VerifiedManifest

log = logging.getLogger(__name__)

MAX_DELTAS: Final = 16
MAX_DELTA_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Blob:
    """What is served to a peer that lacks it."""

    kind: str  # "state" or "deltas"
    from_step: int
    global_step: int
    data: bytes
    data_hash: bytes
    weights_hash: bytes  # of the weights that the receiver ends with


class ModelState:
    """Master weights and optimizer state at `global_step`, and how they came about lately."""

    def __init__(self, project: VerifiedManifest, checkpoints: CheckpointStore) -> None:
        self._project = project
        self._checkpoints = checkpoints
        self._deltas: deque[tuple[int, Vector]] = deque(maxlen=_delta_count(project.manifest))
        self._state: SharedState | None = None
        self._hash = bytes(32)
        self.saved_step: int | None = None

    @property
    def manifest(self) -> Manifest:
        return self._project.manifest

    @property
    def state(self) -> SharedState:
        """The state; `load` comes first."""
        if self._state is None:
            raise RuntimeError("the model was not loaded")
        return self._state

    @property
    def global_step(self) -> int:
        return self.state.global_step

    @property
    def weights_hash(self) -> bytes:
        """SHA-256 of the weights' bytes."""
        return self._hash

    @property
    def damaged(self) -> tuple[Skipped, ...]:
        """Checkpoints that `load` could not use, and why."""
        return self._checkpoints.skipped

    async def load(self) -> None:
        """The newest good checkpoint, or the manifest's initial weights.

        Raises:
            CheckpointError: the checkpoint folder itself cannot be used.
        """
        found = await asyncio.to_thread(self._checkpoints.load_newest)
        if found is None:
            found = await asyncio.to_thread(initial_state, self.manifest.model, self._project.manifest_hash)
        else:
            self.saved_step = found.global_step
        await self._adopt(found)

    async def apply(self, mean_gradient: Vector) -> None:
        """One optimizer step from a committed round's mean gradient, shape [parameter_count].

        Not to be cancelled half way: vectors are updated in place.

        Raises:
            NonFiniteGradient: nothing changed.
        """
        state = await asyncio.to_thread(apply_step, self.state, mean_gradient, self.manifest.optimizer)
        self._deltas.append((self.global_step, mean_gradient))
        await self._adopt(state)

    async def adopt_state(self, state: SharedState, expected_hash: bytes) -> None:
        """Take a whole state from a peer.

        Raises:
            PeerError: its weights do not have the hash that was announced; nothing changed.
        """
        if await asyncio.to_thread(weights_hash, state.weights) != expected_hash:
            raise PeerError("the state's weights do not have the announced hash")
        self._deltas.clear()
        await self._adopt(state)

    async def adopt_deltas(self, data: bytes, from_step: int, to_step: int, expected_hash: bytes) -> None:
        """Take the committed mean gradients of the steps that were missed.

        Raises:
            PeerError: they do not fit or do not lead to the announced weights; nothing changed.
            NonFiniteGradient: likewise.
        """
        state = self.state
        count = state.parameter_count
        if from_step != state.global_step or len(data) != 4 * count * (to_step - from_step):
            raise PeerError("the steps that were sent do not continue this computer's model")
        rows = np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False).reshape(to_step - from_step, count)
        state = _copied(state)  # steps are applied in place, and these may yet turn out wrong
        for row in rows:
            state = await asyncio.to_thread(apply_step, state, row, self.manifest.optimizer)
        if await asyncio.to_thread(weights_hash, state.weights) != expected_hash:
            raise PeerError("the steps that were sent lead to other weights than announced")
        self._deltas.extend((from_step + index, row) for index, row in enumerate(rows))
        await self._adopt(state)

    async def blob_from(self, from_step: int | None) -> Blob:
        """What brings a peer from `from_step` (None: from nothing) to here: the missed steps if known, else all."""
        state, digest = self.state, self._hash
        missed = [row for step, row in self._deltas if from_step is not None and step >= from_step]
        by_deltas = from_step is not None and 0 < len(missed) == state.global_step - from_step
        data = await asyncio.to_thread(lambda: _joined(missed) if by_deltas else to_blob(state))
        data_hash = await asyncio.to_thread(lambda: hashlib.sha256(data).digest())
        return Blob(
            kind="deltas" if by_deltas else "state",
            from_step=from_step or 0,
            global_step=state.global_step,
            data=data,
            data_hash=data_hash,
            weights_hash=digest,
        )

    async def save(self) -> None:
        """Write a checkpoint of this step.

        Raises:
            CheckpointError: it was not written; the older ones are untouched.
        """
        state = self.state
        if self.saved_step == state.global_step:
            return
        await asyncio.to_thread(self._checkpoints.save, state)
        self.saved_step = state.global_step

    async def _adopt(self, state: SharedState) -> None:
        digest = await asyncio.to_thread(weights_hash, state.weights)
        self._state, self._hash = state, digest


def _copied(state: SharedState) -> SharedState:
    return replace(state, weights=state.weights.copy(), moment1=state.moment1.copy(), moment2=state.moment2.copy())


def _joined(rows: list[Vector]) -> bytes:
    return b"".join(row.astype("<f4", copy=False).tobytes() for row in rows)


def _delta_count(manifest: Manifest) -> int:
    return max(1, min(MAX_DELTAS, MAX_DELTA_BYTES // (4 * parameter_count(manifest))))
