"""Random bytes and mutated samples to every decoder: its own refusal or a value, in bounded memory, leaving nothing."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.decoders import MAX_INPUT_BYTES, Decoder, takes
from tests.fuzz.memory import LEFT_BEHIND_BYTES, allowed_bytes, left_behind_bytes, peak_bytes, traced
from tests.fuzz.mutate import TOKENS, Edit, Step, mutated, some_edits
from tests.fuzz.streams import TABLE

pytestmark = pytest.mark.timeout(300)

every_decoder = pytest.mark.parametrize("decoder", TABLE, ids=[decoder.name for decoder in TABLE])

MUTANTS = 400
REPEATS = 2_000
WARM_UP = 300

edits = st.lists(
    st.builds(
        Edit,
        step=st.sampled_from(Step),
        at=st.integers(0, 2**20),
        size=st.integers(0, 2**12),
        value=st.integers(0, 2**16),
    ),
    min_size=1,
    max_size=8,
)


@every_decoder
def test_samples_are_taken(decoder: Decoder) -> None:
    assert [takes(decoder, sample) for sample in decoder.samples] == [True] * len(decoder.samples)
    assert [takes(decoder, sample) for sample in decoder.refused] == [False] * len(decoder.refused)


@every_decoder
@given(data=st.binary(max_size=2000))
def test_random_bytes_are_refused_properly(decoder: Decoder, data: bytes) -> None:
    takes(decoder, data)


@every_decoder
@given(data=st.data())
def test_mutations_are_refused_properly_or_taken(decoder: Decoder, data: st.DataObject) -> None:
    samples = decoder.samples + decoder.refused
    sample = data.draw(st.sampled_from(samples))
    takes(decoder, mutated(sample, data.draw(edits), samples, MAX_INPUT_BYTES))


@every_decoder
def test_every_token_at_every_fourth_place(decoder: Decoder) -> None:
    sample = min(decoder.samples, key=len)[:400]
    for token in TOKENS:
        for at in range(0, len(sample) + 1, 4):
            takes(decoder, sample[:at] + token + sample[at:])


@every_decoder
def test_every_truncation(decoder: Decoder) -> None:
    for sample in decoder.samples:
        for end in range(0, len(sample), 1 + len(sample) // 300):
            takes(decoder, sample[:end])


@every_decoder
def test_memory_of_one_call_follows_its_input(decoder: Decoder) -> None:
    with traced():
        peak_bytes(decoder, decoder.samples[0])
        for data in mutants(decoder, MUTANTS, seed=1):
            assert peak_bytes(decoder, data) <= allowed_bytes(data), data[:200]


@every_decoder
def test_repeats_leave_nothing_behind(decoder: Decoder) -> None:
    with traced():
        inputs = [*decoder.samples, *mutants(decoder, 40, seed=2)]
        assert left_behind_bytes(decoder, inputs, WARM_UP, REPEATS) <= LEFT_BEHIND_BYTES


def mutants(decoder: Decoder, count: int, seed: int) -> list[bytes]:
    dice, samples = random.Random(seed), decoder.samples + decoder.refused
    return [mutated(dice.choice(samples), some_edits(dice), samples, MAX_INPUT_BYTES) for _ in range(count)]
