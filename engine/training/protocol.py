"""Messages between the engine and its training worker: length-prefixed msgpack over the worker's stdin and stdout.

The vectors themselves lie in two memory-mapped float32 files, shape [parameter_count] each, in the manifest's tensor
order: `weights` (written by the engine, read by the worker) and `gradients` (sum over samples of per-sample mean-loss
gradients; written by the worker, read by the engine while the worker is frozen). No torch here.
"""

from typing import Final, TypeAlias

import msgspec

MAX_FRAME_BYTES: Final = 4 * 1024 * 1024


class WorkerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the pipe's messages."""


# Engine to worker.


class Start(WorkerMessage, frozen=True, kw_only=True, tag="start"):
    """First message: build the model and wait for `Train`."""

    manifest_payload: bytes
    weights_path: str
    gradients_path: str
    peer_id: str
    threads: int
    device: str  # "cpu", "cuda", "mps" or "auto"


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """What the gradients in the buffer stand for that an earlier worker of this run left there."""

    samples: int
    tokens: int
    loss_sum: float  # nats, summed over `tokens`


class Train(WorkerMessage, frozen=True, kw_only=True, tag="train"):
    """Load the weights at `global_step`, zero the gradients (unless `keep`), and accumulate until told otherwise.

    With `carried` a worker that was just started goes on from the gradients in the buffer.
    """

    global_step: int
    keep: bool = False
    carried: Carried | None = None


class Freeze(WorkerMessage, frozen=True, kw_only=True, tag="freeze"):
    """Finish the micro-batch in hand, flush the gradients to the buffer, answer `Frozen`, compute no more."""


class Throttle(WorkerMessage, frozen=True, kw_only=True, tag="throttle"):
    """Share of the time that each of `threads` computes; 0 pauses between micro-batches, keeping what is accumulated.

    `gentle` asks to leave the fast cores to the user, where a processor has cores of several kinds.
    """

    duty: float
    threads: int
    gentle: bool = False


class Evaluate(WorkerMessage, frozen=True, kw_only=True, tag="evaluate"):
    """While frozen or training: measure the held-out loss of the weights in the buffer; answers `Evaluated`."""

    global_step: int


class Write(WorkerMessage, frozen=True, kw_only=True, tag="write"):
    """While frozen or training: let the model continue `prompt`; answers `Written`."""

    global_step: int
    prompt: str
    max_tokens: int


class WorkerPing(WorkerMessage, frozen=True, kw_only=True, tag="ping"):
    """Answered by `Pong` from between micro-batches: proves that the training thread lives."""

    number: int


class Stop(WorkerMessage, frozen=True, kw_only=True, tag="stop"):
    """End the process."""


# Worker to engine.


class Ready(WorkerMessage, frozen=True, kw_only=True, tag="ready"):
    """The model stands and its parameters match the manifest."""

    device: str
    parameter_count: int


class Accumulated(WorkerMessage, frozen=True, kw_only=True, tag="accumulated"):
    """After each micro-batch: totals since the gradients were last zeroed."""

    global_step: int
    samples: int
    tokens: int
    loss_sum: float  # nats, summed over `tokens`
    busy_seconds: float  # compute time since the gradients were last zeroed


class Frozen(WorkerMessage, frozen=True, kw_only=True, tag="frozen"):
    """The gradients in the buffer are final: these are their totals."""

    global_step: int
    samples: int
    tokens: int
    loss_sum: float


class Evaluated(WorkerMessage, frozen=True, kw_only=True, tag="evaluated"):
    """Mean held-out loss in nats per token."""

    global_step: int
    loss: float
    tokens: int


class Written(WorkerMessage, frozen=True, kw_only=True, tag="written"):
    """What the model wrote after the prompt."""

    global_step: int
    prompt: str
    text: str


class Pong(WorkerMessage, frozen=True, kw_only=True, tag="pong"):
    """Answer to `WorkerPing`."""

    number: int


class Failed(WorkerMessage, frozen=True, kw_only=True, tag="failed"):
    """The worker cannot go on; it exits after this. `kind` names whose fault it is."""

    kind: str  # "model_mismatch", "data_unavailable", "non_finite", "out_of_memory", "internal"
    detail: str


ToWorker: TypeAlias = Start | Train | Freeze | Throttle | Evaluate | Write | WorkerPing | Stop
FromWorker: TypeAlias = Ready | Accumulated | Frozen | Evaluated | Written | Pong | Failed
