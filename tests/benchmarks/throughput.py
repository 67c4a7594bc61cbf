"""Tokens a second of one volunteer, in the engine and in the plain loop, measured in turns.

One round of turns is: the plain loop for PLAIN_SECONDS while engine and worker are suspended, so that nothing else
runs; then the engine, while the plain loop waits for its next line. All readings are taken from outside, over the
control link, at the moment at which a micro-batch ends, so that a window holds whole micro-batches.

- *Accumulating*: within one global step, from the time when the FROM part of its batch is there to the UNTIL part. What
  the engine costs here is what it costs between rounds: reports over the pipe, pings, flat sums, checks for numbers
  that are none, and whatever the engine's own process takes from the worker.
- *With rounds*: from the first of those readings to the first micro-batch of the next step. That counts the round too:
  freeze, flush, averaging, vote, the optimizer step in numpy, the weights' hash, checkpoints, thaw, and the held-out
  evaluations of the project. On the plain side it counts one clipped step of `torch.optim.AdamW` for the same batch.
"""

import time
from dataclasses import dataclass
from typing import Final

import msgspec
import psutil

from engine.contract import commands as c
from engine.contract.reasons import RunState
from engine.contract.snapshot import EngineState, SessionState
from tests.benchmarks.children import BenchmarkFailed, Engine, Patience, PlainTrainer
from tests.benchmarks.plain_protocol import Answer
from tests.benchmarks.processors import busy_seconds

PLAIN_SECONDS: Final = 4.0
STEP_SECONDS: Final = 6.0
"""About how long the engine accumulates for one step."""
FROM, UNTIL = 0.15, 0.85
POLL_SECONDS: Final = 0.1
EDGE_POLL_SECONDS: Final = 0.004
"""Fine enough for windows of seconds, and rare enough not to take the processor from the worker that is measured."""
PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The engine's counters at the end of a micro-batch."""

    at: float
    global_step: int
    samples: int  # towards the step in progress
    committed_tokens: int  # of this computer, in all steps before


@dataclass(frozen=True, slots=True)
class EngineTurn:
    """What the engine did in its turn."""

    tokens: int
    seconds: float
    tokens_with_round: int
    seconds_with_round: float
    round_seconds: float  # as the engine tells: from the proposal to the commit
    engine_cpu: float  # processors that the engine process kept busy while the worker accumulated
    worker_cpu: float
    others_cpu: float  # anybody else, this benchmark with them


class EngineTrainer:
    """The engine with its worker, as something to measure."""

    def __init__(self, engine: Engine, patience: Patience, tokens_per_sample: int) -> None:
        self._engine = engine
        self._patience = patience
        self._tokens_per_sample = tokens_per_sample

    async def pids(self) -> tuple[int, int]:
        """Of engine and worker."""
        return self._engine.process.pid, await worker_pid(self._engine)

    async def finish_step(self) -> None:
        """Until the next step has begun."""
        step = (await session_of(self._engine)).global_step
        await self._next_step(step)

    async def turn(self) -> EngineTurn:
        """One window within a step, and one to the next step's first micro-batch."""
        first, cpu_before = await self._edge_after(FROM), await self._cpu_seconds()
        last, cpu_after = await self._edge_after(UNTIL), await self._cpu_seconds()
        if last.global_step != first.global_step:
            raise BenchmarkFailed("a step ended before its batch was full")
        next_step = await self._next_step(first.global_step)
        session = await session_of(self._engine)
        seconds = last.at - first.at
        return EngineTurn(
            tokens=self._tokens(first, last),
            seconds=seconds,
            tokens_with_round=self._tokens(first, next_step),
            seconds_with_round=next_step.at - first.at,
            round_seconds=session.last_round.seconds if session.last_round is not None else 0.0,
            engine_cpu=(cpu_after[0] - cpu_before[0]) / seconds,
            worker_cpu=(cpu_after[1] - cpu_before[1]) / seconds,
            others_cpu=(cpu_after[2] - cpu_before[2]) / seconds,
        )

    def _tokens(self, first: Reading, last: Reading) -> int:
        return (last.samples - first.samples) * self._tokens_per_sample + last.committed_tokens - first.committed_tokens

    async def _next_step(self, step: int) -> Reading:
        """The end of the first micro-batch after `step`."""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while (await session_of(self._engine)).global_step == step:
            if time.perf_counter() > deadline:
                raise BenchmarkFailed(f"the engine took no step within {PATIENCE_SECONDS:.0f} s")
            await self._patience.rest(POLL_SECONDS)
        return await self._edge()

    async def _edge_after(self, fraction: float) -> Reading:
        """The end of a micro-batch when this much of the batch is there."""
        step = (await session_of(self._engine)).global_step
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while time.perf_counter() < deadline:
            session = await session_of(self._engine)
            if session.global_step != step or session.my_samples >= fraction * session.target_batch_samples:
                return await self._edge()
            await self._patience.rest(POLL_SECONDS)
        raise BenchmarkFailed(f"the batch did not fill within {PATIENCE_SECONDS:.0f} s")

    async def _edge(self) -> Reading:
        """The end of the micro-batch in hand."""
        before = (await session_of(self._engine)).my_samples
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while time.perf_counter() < deadline:
            session = await session_of(self._engine)
            if session.my_samples > before:
                at = time.perf_counter()
                return Reading(at, session.global_step, session.my_samples, session.my_tokens_committed)
            before = min(before, session.my_samples)
            await self._patience.rest(EDGE_POLL_SECONDS)
        raise BenchmarkFailed(f"no micro-batch ended within {PATIENCE_SECONDS:.0f} s")

    async def _cpu_seconds(self) -> tuple[float, float, float]:
        """Of the engine, of its worker, and of all others."""
        engine, worker = [sum(psutil.Process(pid).cpu_times()[:2]) for pid in await self.pids()]
        return engine, worker, busy_seconds() - engine - worker


async def take_turns(plain: PlainTrainer, engine: EngineTrainer, turns: int) -> tuple[list[Answer], list[EngineTurn]]:
    """`turns` windows of each, a plain one before and beside each of the engine's."""
    answers, engine_turns = [], []
    await engine.finish_step()
    for _ in range(turns):
        answers.append(await plain.train(PLAIN_SECONDS, suspend=await engine.pids()))
        engine_turns.append(await engine.turn())
    return answers, engine_turns


async def state_of(engine: Engine) -> EngineState:
    """The whole tree, now."""
    return msgspec.convert(await engine.client.request(c.GetState()), EngineState)


async def session_of(engine: Engine) -> SessionState:
    """The session, now.

    Raises:
        BenchmarkFailed: it does not train; says what the engine says.
    """
    state = await state_of(engine)
    if state.session is None or state.status.state not in (RunState.TRAINING, RunState.AVERAGING):
        raise BenchmarkFailed(f"{engine.name} does not train: {state.status} {state.problems}")
    return state.session


async def worker_pid(engine: Engine) -> int:
    """The worker's process id.

    Raises:
        BenchmarkFailed: there is no worker.
    """
    pid = (await session_of(engine)).worker_pid
    if pid is None:
        raise BenchmarkFailed(f"{engine.name} has no worker")
    return pid
