"""The torch side of the collaborative strategy: per-sample-mean gradients summed until the group has its batch.

After Diskin et al. 2021, "Distributed Deep Learning in Open Collaborations", section 3.1: peers accumulate
micro-batches of their own size, and the step divides the sum over all peers by the number of samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from engine.data.assignment import held_out_offsets, sample_offsets
from engine.data.python_stdlib import Bytes, Text
from engine.manifest.schema import Manifest
from engine.training.buffers import SharedVectors
from engine.training.models import FlatParameters, cached_call

TEMPERATURE: Final = 0.8
TOKENS_PER_TURN: Final = 8
"""Written between two looks at the engine's messages."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What the accumulated gradients stand for."""

    samples: int = 0
    tokens: int = 0
    loss_sum: float = 0.0  # nats, summed over `tokens`


class NonFiniteError(Exception):
    """A micro-batch gave a loss or gradient that is no number; everything accumulated was dropped."""


class CollaborativeKernel:
    """Accumulates, measures and writes with one model on one device. One thread."""

    def __init__(self, module: nn.Module, manifest: Manifest, text: Text, vectors: SharedVectors, peer_id: str) -> None:
        """`module` already lies on its device; its parameters become views of flat vectors.

        Raises:
            ValueError: the shared vectors have another length than the model's parameters.
        """
        self._device = next(module.parameters()).device
        self._module = module.eval()  # no dropout: work must be recomputable
        self._flat = FlatParameters(module, self._device)
        if self._flat.count != vectors.parameter_count:
            raise ValueError(f"the model has {self._flat.count} parameters, the buffers {vectors.parameter_count}")
        self._manifest = manifest
        self._text = text
        self._vectors = vectors
        self._peer_id = peer_id
        self._length = manifest.data.sequence_length
        self._micro_batch = 0
        self._held_out_micro = manifest.training.micro_batch_samples
        self.global_step = 0
        self.totals = Totals()

    def load(self, global_step: int) -> None:
        """Take the weights from the shared buffer as those of `global_step`."""
        self._flat.values.copy_(torch.from_numpy(np.asarray(self._vectors.weights)))
        self.global_step = global_step

    def zero(self) -> None:
        """Forget what was accumulated."""
        self._flat.gradients.zero_()
        self._micro_batch = 0
        self.totals = Totals()

    def restore(self, totals: Totals) -> None:
        """Go on from the sums in the shared `gradients` buffer, which a worker before this one left for this step."""
        self._flat.gradients.copy_(torch.from_numpy(np.asarray(self._vectors.gradients)))
        self._micro_batch = totals.samples // self._manifest.training.micro_batch_samples
        self.totals = totals

    def accumulate(self) -> Totals:
        """One micro-batch: `sum += b * gradient(mean loss over its b samples)`.

        Raises:
            NonFiniteError: see there; the totals are zero afterwards, and the next call takes other samples.
        """
        training = self._manifest.training
        count = training.micro_batch_samples
        choices = self._text.training.size - self._length
        seed = self._manifest.model.seed
        offsets = sample_offsets(seed, self._peer_id, self.global_step, self._micro_batch, count, choices)
        self._micro_batch += 1
        loss = self._loss(self._text.training, offsets)
        torch.autograd.backward(loss * count)
        mean_loss = float(loss.item())
        # autograd adds to what is there. A sum is finite only if all its terms are, and costs a fraction of looking at
        # each.
        if not np.isfinite(mean_loss) or not np.isfinite(float(self._flat.gradients.sum())):
            self._drop()
            raise NonFiniteError(f"loss {mean_loss} at step {self.global_step}, micro-batch {self._micro_batch - 1}")
        tokens = count * self._length
        self.totals = Totals(
            samples=self.totals.samples + count,
            tokens=self.totals.tokens + tokens,
            loss_sum=self.totals.loss_sum + mean_loss * tokens,
        )
        return self.totals

    def flush(self) -> None:
        """Copy the sums to the shared `gradients` buffer."""
        self._vectors.gradients[:] = self._flat.gradients.cpu().numpy()

    def evaluate(self) -> Iterator[tuple[float, int]]:
        """Held-out loss so far (mean nats per token) and tokens, after each micro-batch; the last pair is final."""
        choices = self._text.held_out.size - self._length
        offsets = held_out_offsets(self._manifest.data.held_out_samples, choices)
        total, tokens = 0.0, 0
        for begin in range(0, len(offsets), self._held_out_micro):
            part = offsets[begin : begin + self._held_out_micro]
            with torch.inference_mode():
                loss = float(self._loss(self._text.held_out, part).item())
            total += loss * len(part) * self._length
            tokens += len(part) * self._length
            yield total / tokens, tokens

    def write(self, prompt: str, max_tokens: int) -> Iterator[str]:
        """What the model continues `prompt` with, so far, every few bytes; the last text is final.

        Drawn at TEMPERATURE from a generator seeded by the run and the step: all peers write the same at one step, as
        far as their arithmetic agrees.
        """
        generator = torch.Generator().manual_seed(self._manifest.model.seed + self.global_step)
        known = list(prompt.encode())[-self._length :] or list(b"\n")
        written = bytearray()
        while len(written) < max_tokens:
            turn = min(TOKENS_PER_TURN, max_tokens - len(written))
            written += self._next_bytes(known, turn, generator)
            known = (known + list(written[-turn:]))[-self._length :]
            yield written.decode("utf-8", errors="replace")

    def _next_bytes(self, known: list[int], count: int, generator: torch.Generator) -> bytes:
        """`count` more bytes after the token ids `known`, never looking at more than the model was trained on."""
        drawn = bytearray()
        context = known[-max(1, self._length - count) :]
        inputs = torch.tensor([context], device=self._device)
        further = cached_call(self._module)
        with torch.inference_mode():
            for _ in range(count):
                logits = further(inputs)[0, -1].float().cpu()
                chances = torch.softmax(logits / TEMPERATURE, dim=-1)
                token = int(torch.multinomial(chances, 1, generator=generator).item())
                drawn.append(token)
                inputs = torch.tensor([[token]], device=self._device)
        return bytes(drawn)

    def _loss(self, source: Bytes, offsets: tuple[int, ...]) -> torch.Tensor:
        """Mean cross-entropy in nats per token; inputs and targets are [len(offsets), sequence_length]."""
        rows = np.stack([source[offset : offset + self._length + 1] for offset in offsets])
        tokens = torch.from_numpy(rows.astype(np.int64)).to(self._device)
        logits = self._module(input_ids=tokens[:, :-1], use_cache=False).logits
        return functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    def _drop(self) -> None:
        """Forget the sums, but not how far the samples were drawn."""
        self._flat.gradients.zero_()
        self.totals = Totals()
