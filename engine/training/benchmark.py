"""How fast this computer trains the reference model: `python -m engine.training.benchmark THREADS SECONDS`.

A child of the engine at the lowest priority. On stdin comes the model's manifest on one line; stdin then stays open,
and the child ends when it closes. On stdout go one JSON line for each device, `DeviceSpeed`, and between them lines
with a `fraction`.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Final

import msgspec
import numpy as np
import psutil
import torch

from engine.contract.snapshot import DeviceSpeed
from engine.data.python_stdlib import load_text
from engine.manifest.parse import parse
from engine.manifest.schema import Manifest
from engine.strategies.collaborative.kernel import CollaborativeKernel
from engine.training.buffers import SharedVectors
from engine.training.device import usable_devices
from engine.training.models import build_model
from engine.training.worker import EXIT_ENGINE_GONE, LOWEST_NICENESS, die_with_parent, lower_priority

WARM_UP_FRACTION: Final = 0.25
WEIGHT_STD: Final = 0.02
PEER: Final = "benchmark"
MAX_MANIFEST_BYTES: Final = 1024 * 1024


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the whole benchmark is, 0 to 1."""

    fraction: float


def measure(
    manifest: Manifest, threads: int, seconds: float, folder: Path, clock: Callable[[], float]
) -> Iterator[DeviceSpeed | Progress]:
    """Each device for about `seconds`, warming up included."""
    devices = usable_devices()
    torch.set_num_threads(max(1, threads))
    text = load_text(manifest.data.sequence_length, manifest.data.held_out_percent)
    for place, (device, name, problem) in enumerate(devices):
        if problem:
            yield DeviceSpeed(device=device, name=name, detail=problem)
            continue
        module = build_model(manifest.model).to(torch.device(device))
        count = sum(parameter.numel() for parameter in module.parameters())
        vectors = SharedVectors.create(folder / str(place), count)
        vectors.weights[:] = np.random.default_rng(manifest.model.seed).standard_normal(count) * WEIGHT_STD
        kernel = CollaborativeKernel(module, manifest, text, vectors, PEER)
        kernel.load(0)
        begun, tokens_before, measured_from = clock(), 0, 0.0
        while (elapsed := clock() - begun) < seconds or not measured_from:
            if not measured_from and elapsed >= WARM_UP_FRACTION * seconds:
                tokens_before, measured_from = kernel.totals.tokens, clock()
            kernel.accumulate()
            yield Progress(fraction=min(1.0, (place + min(1.0, elapsed / seconds)) / len(devices)))
        spent = max(1e-9, clock() - measured_from)
        rate = (kernel.totals.tokens - tokens_before) / spent
        yield DeviceSpeed(device=device, name=name, tokens_per_second=rate, memory_bytes=_memory_bytes(device))
        vectors.remove()


def _memory_bytes(device: str) -> int:
    """Of this process on a device."""
    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_reserved(torch.device(device)))
    return int(psutil.Process().memory_info().rss)


def _end_with_engine() -> None:
    while os.read(0, 4096):
        pass
    os._exit(EXIT_ENGINE_GONE)


def main(arguments: list[str]) -> int:
    """Entry of the child process."""
    die_with_parent()
    lower_priority(LOWEST_NICENESS)
    threads, seconds = int(arguments[0]), float(arguments[1])
    manifest = parse(sys.stdin.buffer.readline(MAX_MANIFEST_BYTES))
    Thread(target=_end_with_engine, name="engine watch", daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="potluck-benchmark-") as folder:
        last_said = 0.0
        for line in measure(manifest, threads, seconds, Path(folder), time.perf_counter):
            if isinstance(line, Progress) and time.perf_counter() - last_said < 0.25:
                continue
            last_said = time.perf_counter()
            sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
