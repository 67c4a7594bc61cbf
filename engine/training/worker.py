"""The training process: `python -m engine.training.worker`, a child of the engine at the lowest priority.

Frames come in on stdin and go out on stdout (docs/specs/worker.md). A second thread only reads: so the process ends
at once when the engine is gone, even amid a step. Whatever a library prints goes to stderr.
"""

import contextlib
import ctypes
import logging
import os
import queue
import signal
import sys
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO, Final

import psutil

from engine.core.errors import PeerError
from engine.data.errors import DataUnavailable
from engine.training.cores import core_user
from engine.training.pipe import FrameReader, PipeError, decode_to_worker, encode_frame
from engine.training.protocol import Failed, FromWorker, Ready, Start, Stop, ToWorker

if TYPE_CHECKING:
    import torch

    from engine.strategies.collaborative.kernel import CollaborativeKernel
    from engine.training.loop import TrainingLoop

EXIT_FAILED: Final = 3
EXIT_ENGINE_GONE: Final = 4
EXIT_GARBAGE: Final = 5
STARTING_NICENESS: Final = 5
LOWEST_NICENESS: Final = 19
_READ_BYTES: Final = 65_536
_PR_SET_PDEATHSIG: Final = 1

log = logging.getLogger(__name__)


class Pipe:
    """The worker's end: a queue of messages from the engine, and frames back."""

    def __init__(self, read: BinaryIO, write: BinaryIO) -> None:
        self._read = read
        self._write = write
        self._messages: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()
        self._thread = Thread(target=self._listen, name="pipe", daemon=True)

    def start(self) -> None:
        """Begin to listen. The thread lives as long as the process."""
        self._thread.start()

    def receive(self, timeout_seconds: float | None) -> ToWorker | None:
        """The next message; None when there is none in time. No limit when `timeout_seconds` is None."""
        try:
            if timeout_seconds is not None and timeout_seconds <= 0.0:
                return self._messages.get_nowait()
            return self._messages.get(timeout=timeout_seconds)
        except queue.Empty:
            return None

    def send(self, message: FromWorker) -> None:
        """Write one frame; the process ends when nobody reads any more."""
        try:
            self._write.write(encode_frame(message))
            self._write.flush()
        except BrokenPipeError:
            os._exit(EXIT_ENGINE_GONE)

    def _listen(self) -> None:
        """`os._exit`, since the main thread may be amid a long step and nothing here needs tidying up."""
        frames = FrameReader()
        while True:
            data = os.read(self._read.fileno(), _READ_BYTES)
            if not data:
                os._exit(EXIT_ENGINE_GONE)
            try:
                for body in frames.feed(data):
                    self._messages.put(decode_to_worker(body))
            except PipeError as error:
                sys.stderr.write(f"The engine sent garbage: {error}\n")
                sys.stderr.flush()
                os._exit(EXIT_GARBAGE)


def take_over_pipe() -> Pipe:
    """Keep the real stdin and stdout for frames; give libraries an empty stdin, and stderr as stdout."""
    read_descriptor, write_descriptor = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt  # only there

        msvcrt.setmode(read_descriptor, os.O_BINARY)
        msvcrt.setmode(write_descriptor, os.O_BINARY)
    return Pipe(os.fdopen(read_descriptor, "rb", buffering=0), os.fdopen(write_descriptor, "wb"))


def die_with_parent() -> None:
    """On Linux the kernel kills this process when the engine dies, whatever this process is doing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def lower_priority(niceness: int) -> None:
    """Compute and disk only when nobody else wants them. Not being allowed to is no reason to fail."""
    process = psutil.Process()
    with contextlib.suppress(psutil.Error, OSError):
        if sys.platform == "win32":
            process.nice(psutil.IDLE_PRIORITY_CLASS)
            process.ionice(psutil.IOPRIO_VERYLOW)
        else:
            process.nice(niceness)
            if sys.platform == "linux":
                process.ionice(psutil.IOPRIO_CLASS_IDLE)


def run(pipe: Pipe) -> int:
    """Serve the engine until `Stop`; the process's exit status."""
    start = pipe.receive(None)
    if not isinstance(start, Start):
        log.error("The first message was %s, not Start", type(start).__name__)
        return EXIT_GARBAGE
    try:
        return _serve(pipe, start)
    except DataUnavailable as error:
        return _failed(pipe, "data_unavailable", str(error))
    except PeerError as error:
        return _failed(pipe, "model_mismatch", str(error))
    except MemoryError as error:
        return _failed(pipe, "out_of_memory", str(error) or "there is not enough memory for the model")


def _serve(pipe: Pipe, start: Start) -> int:
    """Imports torch here, so that the pipe answers to the engine's death from the first moment."""
    import torch

    from engine.training.device import DeviceUnusable, choose_device
    from engine.training.loop import KeepsFailing, TrainingLoop

    torch.set_num_threads(max(1, start.threads))
    torch.set_num_interop_threads(1)
    try:
        device = choose_device(start.device)
        kernel, parameter_count = _make_kernel(start, device)
        cpu_clock = time.process_time if device.type == "cpu" else None
        loop = TrainingLoop(kernel, pipe.send, time.perf_counter, core_user(torch.set_num_threads).use, cpu_clock)
        lower_priority(LOWEST_NICENESS)
        pipe.send(Ready(device=str(device), parameter_count=parameter_count))
        _turn_until_stopped(pipe, loop)
    except DeviceUnusable as error:
        return _failed(pipe, "internal", f"the device cannot be used: {error}")
    except KeepsFailing as error:
        return _failed(pipe, "non_finite", str(error))
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        raise MemoryError(str(error).partition("\n")[0]) from error
    return 0


def _make_kernel(start: Start, device: "torch.device") -> "tuple[CollaborativeKernel, int]":
    from engine.data.python_stdlib import load_text
    from engine.manifest.parse import parse
    from engine.strategies.collaborative.kernel import CollaborativeKernel
    from engine.training.buffers import SharedVectors
    from engine.training.models import build_model

    manifest = parse(start.manifest_payload)
    module = build_model(manifest.model).to(device)
    count = sum(parameter.numel() for parameter in module.parameters())
    text = load_text(manifest.data.sequence_length, manifest.data.held_out_percent)
    vectors = SharedVectors.open(Path(start.weights_path), Path(start.gradients_path), count)
    return CollaborativeKernel(module, manifest, text, vectors, start.peer_id), count


def _turn_until_stopped(pipe: Pipe, loop: "TrainingLoop") -> None:
    while True:
        message = pipe.receive(loop.wait_seconds())
        if isinstance(message, Stop):
            return
        if message is not None:
            loop.on_message(message)
        else:
            loop.turn()


def _is_out_of_memory(error: RuntimeError) -> bool:
    """torch raises a subclass for graphics memory, and a plain RuntimeError from its CPU allocator."""
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error)


def _failed(pipe: Pipe, kind: str, detail: str) -> int:
    pipe.send(Failed(kind=kind, detail=detail[:2000]))
    return EXIT_FAILED


def main() -> int:
    """Entry of the child process."""
    pipe = take_over_pipe()
    die_with_parent()
    lower_priority(STARTING_NICENESS)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    pipe.start()
    return run(pipe)


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # torch's threads and the reading thread need no farewell
