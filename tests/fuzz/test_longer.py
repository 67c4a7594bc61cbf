"""The long run finds a fault, tells it once, and with no more input than it needs."""

from tests.fuzz.decoders import Decoder
from tests.fuzz.longer import Trial


def _faulty(data: bytes) -> object:
    if b"\x07" in data:
        raise KeyError("not a refusal")
    if data:
        raise ValueError("a refusal")
    return None


def test_a_crash_is_told_once_and_cut_down() -> None:
    trial = Trial(Decoder("faulty", _faulty, (ValueError,), (b"",)), "loop", seconds=0.0)
    for data in (b"", b"good", b"long" * 50 + b"\x07" + b"and so on" * 20, b"\x07\x07"):
        trial.one(data)
    assert (trial.found.executions, trial.found.taken) == (4, 1)
    ((crash, needed),) = trial.found.crashes.items()
    assert crash.startswith("KeyError at test_longer.py:")
    assert bytes.fromhex(needed) == b"\x07"
    assert trial.is_over
