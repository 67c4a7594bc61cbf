"""Reproducers, as small as they get, of what fuzzing found and was mended since."""

from collections.abc import Callable

import msgspec
import pytest

from engine.kit.errors import KitFault
from engine.kit.lock import KitLock, parse_lock
from engine.training.pipe import PipeError, decode_from_worker, decode_to_worker
from tests.helpers.kit_samples import kit_of

DEEP = b"\x81\xa2zz" + b"\x91" * 2000 + b"\xc0"
"""A map with one field that no message has, whose value nests deeper than Python's recursion goes."""


@pytest.mark.parametrize("decode", [decode_to_worker, decode_from_worker])
def test_found_a_recursion_error_from_the_workers_pipe(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(PipeError, match="recursion"):
        decode(DEEP)


def test_found_a_line_end_behind_a_hash_in_the_kits_lock() -> None:
    lock = msgspec.json.encode(
        KitLock(1, {"linux-cpu": kit_of({"torch-2.6.0-cp311-cp311-linux_x86_64.whl": b"wheel"})})
    )
    sha256 = parse_lock(lock).kits["linux-cpu"].files[0].sha256
    with pytest.raises(KitFault):
        parse_lock(lock.replace(sha256.encode(), sha256.encode() + b"\\n"))
