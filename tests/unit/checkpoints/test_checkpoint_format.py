import dataclasses
import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoints.errors import BlobError
from engine.checkpoints.format import MAX_HEADER_BYTES, from_blob, max_blob_bytes, to_blob
from engine.checkpoints.state import SharedState
from tests.helpers.states import PROJECT, assert_same_state, make_state

COUNT = 37


@given(st.integers(1, 200), st.integers(0, 10**9))
def test_a_state_survives_the_round_trip_bit_for_bit(count: int, step: int) -> None:
    state = make_state(count, step)
    blob = to_blob(state)
    assert len(blob) <= max_blob_bytes(count)
    assert_same_state(from_blob(blob, PROJECT, count), state)


def test_the_bytes_are_canonical() -> None:
    numbers = np.arange(COUNT, dtype=np.float32)
    state = SharedState(9, numbers, numbers + 1, numbers + 2, PROJECT, {"b": 0.5, "a": 0.25})
    assert hashlib.sha256(to_blob(state)).hexdigest() == (
        "24b25d6288de99e838514ddc630be32d9e64372037c9544f8cf97aabce6e11e9"
    )
    assert to_blob(state) == to_blob(dataclasses.replace(state, scalars={"a": 0.25, "b": 0.5}))


def test_the_safetensors_library_reads_it(tmp_path: Path) -> None:
    state = make_state(COUNT)
    path = tmp_path / "state.safetensors"
    path.write_bytes(to_blob(state))
    tensors = safetensors.numpy.load_file(path)
    assert set(tensors) == {"weights", "moment1", "moment2"}
    assert tensors["weights"].tobytes() == state.weights.tobytes()
    assert tensors["moment2"].tobytes() == state.moment2.tobytes()
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata()["global_step"] == "5"


def test_vectors_can_be_written_to() -> None:
    state = from_blob(to_blob(make_state(COUNT)), PROJECT, COUNT)
    state.weights[0] = 1.0
    assert state.weights[0] == 1.0


@pytest.mark.parametrize("count", [COUNT - 1, COUNT + 1, 10**6])
def test_a_state_of_another_size_is_refused(count: int) -> None:
    with pytest.raises(BlobError):
        from_blob(to_blob(make_state(COUNT)), PROJECT, count)


def test_a_state_of_another_project_is_refused() -> None:
    with pytest.raises(BlobError, match="another project"):
        from_blob(to_blob(make_state(COUNT)), bytes(32), COUNT)


def test_a_header_beyond_its_limit_is_refused_unread() -> None:
    blob = struct.pack("<Q", MAX_HEADER_BYTES + 1) + to_blob(make_state(COUNT))[8:]
    with pytest.raises(BlobError, match="header"):
        from_blob(blob, PROJECT, COUNT)


@given(st.integers(min_value=0), st.integers(1, 255))
def test_any_changed_byte_is_noticed_or_harmless(place: int, change: int) -> None:
    state = make_state(COUNT)
    blob = bytearray(to_blob(state))
    blob[place % len(blob)] ^= change
    try:
        read = from_blob(bytes(blob), PROJECT, COUNT)
    except BlobError:
        return
    assert_same_state(read, state)


@given(st.integers(0, 2000))
def test_a_truncated_blob_is_refused(length: int) -> None:
    blob = to_blob(make_state(COUNT))
    with pytest.raises(BlobError):
        from_blob(blob[: min(length, len(blob) - 1)], PROJECT, COUNT)


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(blob: bytes) -> None:
    with pytest.raises(BlobError):
        from_blob(blob, PROJECT, COUNT)


def test_numbers_that_are_none_are_refused_although_the_hash_is_right() -> None:
    state = make_state(COUNT)
    blob = to_blob(state)
    (length,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8 : 8 + length])
    data = bytearray(blob[8 + length :])
    data[0:4] = np.float32(np.nan).tobytes()
    fields = header["__metadata__"]
    covered = "".join(fields[key] + "\n" for key in ("format", "global_step", "manifest_hash", "scalars")).encode()
    fields["sha256"] = hashlib.sha256(covered + data).hexdigest()
    text = json.dumps(header).encode()
    with pytest.raises(BlobError, match="moment1"):
        from_blob(struct.pack("<Q", len(text)) + text + data, PROJECT, COUNT)


def test_an_invalid_state_is_not_written() -> None:
    state = make_state(COUNT)
    state.weights[3] = np.nan
    with pytest.raises(ValueError, match="weights"):
        to_blob(state)
