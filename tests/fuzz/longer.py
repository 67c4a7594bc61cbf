"""All decoders for a long time: `python -m tests.fuzz.longer --seconds 600`. The last line of standard output is JSON.

Each decoder has a process of its own and an equal share of the time. Where atheris (libFuzzer with Python's coverage)
is installed it chooses the inputs, from the samples and this package's changes to them; else a seeded loop of the same
changes. What a decoder raises besides its refusals is a crash, told once for each place, with an input cut down to
what is needed. Ends with 1 when a goal was missed.
"""

import argparse
import importlib
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tests.benchmarks.report import goal, line

if TYPE_CHECKING:
    from tests.fuzz.decoders import Decoder

FLOOR_EXECUTIONS: Final = 1000
KEPT_INPUTS: Final = 300
WARM_UP, REPEATS = 300, 2000
START_SECONDS: Final = 60.0  # a child may take so long besides its share
_ENGINE: Final = str(Path(__file__).resolve().parents[2])


class Found(msgspec.Struct):
    """What one decoder's process tells."""

    decoder: str
    by: str
    executions: int = 0
    taken: int = 0
    crashes: dict[str, str] = {}  # by error and place: the input, in hex
    left_behind_bytes: int = 0
    largest_peak_share: float = 0.0  # of what a call may hold at once


class Trial:
    """One decoder under fire until its time is over."""

    def __init__(self, decoder: "Decoder", by: str, seconds: float) -> None:
        self.decoder = decoder
        self.samples = decoder.samples + decoder.refused
        self.found = Found(decoder.name, by)
        self._dice = random.Random(decoder.name)
        self._until = time.monotonic() + seconds
        self._kept: list[bytes] = list(self.samples)

    @property
    def is_over(self) -> bool:
        """Whether its time is."""
        return time.monotonic() >= self._until

    def one(self, data: bytes) -> None:
        """Try one input."""
        self.found.executions += 1
        crash, taken = self._outcome_of(data)
        self.found.taken += taken
        if crash is None:
            self._keep(data)
        elif crash not in self.found.crashes:
            self.found.crashes[crash] = self._smallest(data, crash).hex()

    def _outcome_of(self, data: bytes) -> tuple[str | None, bool]:
        """The error and place of a crash, if it is one, and whether the input was taken."""
        from tests.fuzz.decoders import takes

        try:
            return None, takes(self.decoder, data)
        except Exception as error:  # noqa: BLE001 (that no other error comes is what is tried)
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}", False

    def _keep(self, data: bytes) -> None:
        if len(self._kept) < KEPT_INPUTS:
            self._kept.append(data)
        elif self._dice.random() < KEPT_INPUTS / self.found.executions:
            self._kept[self._dice.randrange(KEPT_INPUTS)] = data

    def _smallest(self, data: bytes, crash: str) -> bytes:
        """Without the pieces that the crash does not need."""
        size = len(data)
        while size := size // 2:
            at = 0
            while at < len(data):
                shorter = data[:at] + data[at + size :]
                if self._outcome_of(shorter)[0] == crash:
                    data = shorter
                else:
                    at += size
        return data

    def weigh(self) -> None:
        """Memory, over the inputs that were kept."""
        from tests.fuzz.memory import allowed_bytes, left_behind_bytes, peak_bytes, traced

        with traced():
            self.found.left_behind_bytes = left_behind_bytes(self.decoder, self._kept, WARM_UP, REPEATS)
            shares = [peak_bytes(self.decoder, data) / allowed_bytes(data) for data in self._kept]
        self.found.largest_peak_share = max(shares)

    def tell(self) -> None:
        """To the parent."""
        sys.stdout.buffer.write(msgspec.json.encode(self.found) + b"\n")
        sys.stdout.flush()


def decoder_named(name: str) -> "Decoder":
    """From the table. Imported late, so that atheris sees what is imported."""
    from tests.fuzz.streams import TABLE

    return next(decoder for decoder in TABLE if decoder.name == name)


def by_loop(name: str, seconds: float) -> None:
    """A seeded loop of changes to samples, and random bytes now and then."""
    from tests.fuzz.decoders import MAX_INPUT_BYTES
    from tests.fuzz.mutate import mutated, some_edits

    trial, dice = Trial(decoder_named(name), "loop", seconds), random.Random(name)
    while not trial.is_over:
        data = dice.choice(trial.samples) if dice.random() < 0.95 else dice.randbytes(dice.randrange(400))
        trial.one(mutated(data, some_edits(dice), trial.samples, MAX_INPUT_BYTES))
    trial.weigh()
    trial.tell()


def by_atheris(name: str, seconds: float) -> None:
    """Coverage chooses. It does not return: libFuzzer ends only with its process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["engine"]):
        from tests.fuzz.decoders import MAX_INPUT_BYTES
        from tests.fuzz.mutate import mutated, some_edits

        trial = Trial(decoder_named(name), "atheris", seconds)

    corpus = tempfile.TemporaryDirectory()

    def one(data: bytes) -> None:
        if trial.is_over:
            trial.weigh()
            trial.tell()
            corpus.cleanup()
            os._exit(0)
        trial.one(data)

    def changed(data: bytes, max_bytes: int, seed: int) -> bytes:
        dice = random.Random(seed)
        if dice.random() < 0.5:
            return bytes(atheris.Mutate(data, max_bytes))
        return mutated(data, some_edits(dice), trial.samples, max_bytes)

    for number, sample in enumerate(trial.samples):
        (Path(corpus.name) / str(number)).write_bytes(sample)
    flags = [f"-max_len={MAX_INPUT_BYTES}", "-seed=1", "-timeout=30", "-rss_limit_mb=4096", "-verbosity=0"]
    atheris.Setup([sys.argv[0], corpus.name, *flags], one, custom_mutator=changed)
    atheris.Fuzz()


def tried(name: str, seconds: float, by: str) -> Found:
    """What came of one decoder, in a process of its own."""
    command = [sys.executable, "-m", "tests.fuzz.longer", "--decoder", name, "--seconds", str(seconds), "--by", by]
    try:
        done = subprocess.run(
            command, capture_output=True, cwd=_ENGINE, timeout=seconds + START_SECONDS, env=os.environ, check=False
        )
        if done.returncode == 0:
            return msgspec.json.decode(done.stdout.splitlines()[-1], type=Found)
        why = f"ended with {done.returncode}: " + done.stderr[-1500:].decode(errors="replace")
    except subprocess.TimeoutExpired:
        why = "did not end"
    return Found(name, by, crashes={why: ""})


def summary(found: list[Found], seconds: float) -> dict[str, Any]:
    """The figures of all decoders, and whether they are what they must be."""
    return {
        "by": found[0].by,
        "seconds": round(seconds, 1),
        "executions": {one.decoder: one.executions for one in found},
        "taken": {one.decoder: one.taken for one in found},
        "left_behind_bytes": {one.decoder: one.left_behind_bytes for one in found},
        "largest_peak_share": {one.decoder: round(one.largest_peak_share, 3) for one in found},
        "crashes": {one.decoder: one.crashes for one in found if one.crashes},
    }


def main(argv: list[str] | None = None) -> int:
    """The bench, or one decoder's process."""
    has_atheris = importlib.util.find_spec("atheris") is not None
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.longer", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="for all decoders together")
    parser.add_argument("--by", choices=("atheris", "loop"), default="atheris" if has_atheris else "loop")
    parser.add_argument("--decoder", help="only this one, in this process")
    options = parser.parse_args(argv)
    work: Callable[[str, float], None] = by_atheris if options.by == "atheris" else by_loop
    if options.decoder:
        work(options.decoder, options.seconds)
        return 0
    return bench(options.seconds, options.by)


def bench(seconds: float, by: str) -> int:
    """One after the other; 1 when a goal was missed."""
    from tests.fuzz.memory import LEFT_BEHIND_BYTES
    from tests.fuzz.streams import TABLE

    began, found = time.monotonic(), []
    for decoder in TABLE:
        found.append(tried(decoder.name, seconds / len(TABLE), by))
        sys.stderr.write(f"fuzz: {found[-1]}\n")
    goals = {
        "crashes": goal(sum(len(one.crashes) for one in found), 1, "below"),
        "fewest_executions": goal(min(one.executions for one in found), FLOOR_EXECUTIONS, "at_least"),
        "most_left_behind_bytes": goal(max(one.left_behind_bytes for one in found), LEFT_BEHIND_BYTES, "below"),
        "largest_peak_share": goal(max(one.largest_peak_share for one in found), 1.0, "below"),
    }
    sys.stdout.write(line("fuzz", summary(found, time.monotonic() - began), goals) + "\n")
    return 0 if all(one.met for one in goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
