"""The same training in plain PyTorch: `python -m tests.benchmarks.plain_loop MANIFEST THREADS`, driven over stdin.

For every request line it trains for a while and answers one line. What it takes from the engine is the model's
construction and the choice of samples; the loop is what anybody would write. The samples are chosen beforehand, so
that this costs the loop nothing.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import psutil
import torch
from torch.nn import functional

from engine.data.assignment import sample_offsets
from engine.data.python_stdlib import load_text
from engine.manifest.parse import parse
from engine.training.models import build_model
from engine.training.worker import LOWEST_NICENESS, lower_priority
from tests.benchmarks.plain_protocol import Answer, Request
from tests.benchmarks.processors import busy_seconds

CHOSEN_MICRO_BATCHES: Final = 4096


class PlainLoop:
    """Model, optimizer and data."""

    def __init__(self, manifest_path: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        manifest = parse(manifest_path.read_bytes())
        settings, self._count = manifest.optimizer, manifest.training.micro_batch_samples
        self._length = manifest.data.sequence_length
        self._text = torch.from_numpy(
            np.array(load_text(self._length, manifest.data.held_out_percent).training, dtype=np.uint8)
        )
        self._model = build_model(manifest.model)
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
        )
        self._clip_norm = settings.clip_norm
        choices = len(self._text) - self._length
        self._offsets = [
            sample_offsets(manifest.model.seed, "plain", 0, index, self._count, choices)
            for index in range(CHOSEN_MICRO_BATCHES)
        ]
        self._next = 0
        self._loss_sum = 0.0

    def train(self, seconds: float) -> Answer:
        """Whole micro-batches for at least `seconds`, then a step."""
        micro_batches = 0
        begun, cpu_begun, busy_begun = time.perf_counter(), time.process_time(), busy_seconds()
        while (elapsed := time.perf_counter() - begun) < seconds or not micro_batches:
            self._micro_batch()
            micro_batches += 1
        cpu_seconds, busy = time.process_time() - cpu_begun, busy_seconds() - busy_begun
        stepped = time.perf_counter()
        self._step(micro_batches)
        return Answer(
            tokens=micro_batches * self._count * self._length,
            seconds=elapsed,
            cpu_seconds=cpu_seconds,
            others_cpu_seconds=max(0.0, busy - cpu_seconds),
            step_seconds=time.perf_counter() - stepped,
        )

    def _micro_batch(self) -> None:
        offsets = self._offsets[self._next % CHOSEN_MICRO_BATCHES]
        self._next += 1
        tokens = torch.stack([self._text[offset : offset + self._length + 1] for offset in offsets]).long()
        logits = self._model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        torch.autograd.backward(loss)
        self._loss_sum += loss.item()

    def _step(self, micro_batches: int) -> None:
        for parameter in self._model.parameters():
            if parameter.grad is not None:
                parameter.grad /= micro_batches
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._clip_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()


@contextlib.contextmanager
def suspended(pids: tuple[int, ...]) -> Iterator[None]:
    """Let the processes stand still. It is done here, since this process goes on when the benchmark is killed."""
    processes = [psutil.Process(pid) for pid in pids]
    try:
        for process in processes:
            process.suspend()
        yield
    finally:
        for process in reversed(processes):  # children first: no parent should find its child silent
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def main(arguments: list[str]) -> int:
    """Serve requests until stdin ends."""
    lower_priority(LOWEST_NICENESS)
    loop = PlainLoop(Path(arguments[0]), int(arguments[1]))
    for text in sys.stdin:
        request = msgspec.json.decode(text, type=Request)
        with suspended(request.suspend):
            answer = loop.train(request.seconds)
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
