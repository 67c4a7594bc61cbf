"""What a member writes in its rounds, and rounds of members that write coarsely."""

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.averaging.codecs.base import CodecId
from engine.averaging.codecs.registry import ELEMENTWISE
from engine.averaging.config import ALLOWED_CODECS, Exchange, RoundConfig
from engine.averaging.effects import Committed, Discarded, NeedParts, Reduce, Reduced, ReduceRow, RoundResult
from engine.averaging.kernels import CODED_NORM_SLACK, global_norm, mean_of, part_fault, sample_exponent
from engine.averaging.packing import Packer
from engine.checkpoints.state import Vector
from engine.wire.messages import AveragedPart, Member, Part
from tests.helpers.sim_network import SimNetwork, peer_id, reference_mean

LENGTH = 300_000
ME, OTHER = peer_id(0), peer_id(1)
CONFIG = RoundConfig(vector_length=LENGTH, minimum_peers=2, max_gradient_norm=1e3, max_tokens_per_sample=8)
HALVES = ((0, LENGTH // 2), (LENGTH // 2, LENGTH))


def noise(seed: int, scale: float = 0.1, length: int = LENGTH) -> Vector:
    return (np.random.Generator(np.random.Philox(seed)).standard_normal(length) * scale).astype(np.float32)


def config(exchange: Exchange) -> RoundConfig:
    return replace(CONFIG, exchange=exchange)


def committed(contributors: tuple[tuple[int, ...], ...]) -> Committed:
    roll = tuple(Member(peer_id=peer, samples=1, tokens=8, loss_sum=1.0, share=LENGTH // 2) for peer in (ME, OTHER))
    result = RoundResult(
        round_id=bytes(16),
        leader=ME,
        global_step=0,
        mean=(b"", b""),
        digests=(bytes(32), bytes(32)),
        roll=roll,
        contributors=contributors,
        slices=HALVES,
        accepted=(0, 1),
        samples=2,
        tokens=16,
        train_loss=1.0,
    )
    return Committed(result)


def decoded(packed_codec: int, payload: bytes, count: int) -> Vector:
    return ELEMENTWISE.codec(packed_codec).decode(payload, count)


@pytest.mark.parametrize(
    ("exchange", "upload", "codec"),
    [
        (Exchange.FLOAT32, 1e3, CodecId.FLOAT32),
        (Exchange.FLOAT16, 1e3, CodecId.FLOAT16),
        (Exchange.INT8, 1e9, CodecId.INT8),
        (Exchange.AUTO, 0.0, CodecId.INT8),
        (Exchange.AUTO, 1e6, CodecId.INT8),
        (Exchange.AUTO, 1e9, CodecId.FLOAT16),
    ],
)
def test_the_project_and_the_line_choose(exchange: Exchange, upload: float, codec: CodecId) -> None:
    packer = Packer(ME, config(exchange))
    packer.begin(upload)
    packed = packer.parts(noise(1), 1, NeedParts(HALVES, frozenset({0})))
    assert packed.codecs == [CodecId.FLOAT32, codec]  # one's own part is exact
    assert set(packed.codecs) <= ALLOWED_CODECS[exchange]
    row = ReduceRow(0, 1, packed.payloads[1], codec)
    answer = packer.perform(Reduce((row,), LENGTH // 2, 1e3, 1, LENGTH // 2))
    assert isinstance(answer, Reduced)
    assert answer.contributors == (0,)
    assert answer.codec == codec


@pytest.mark.parametrize("exchange", list(Exchange))
def test_small_parts_are_exact(exchange: Exchange) -> None:
    packer = Packer(ME, config(exchange))
    packer.begin(0.0)
    packed = packer.parts(noise(1), 1, NeedParts(((0, 100), (100, LENGTH))))
    assert packed.codecs[0] == CodecId.FLOAT32


def test_what_was_lost_in_a_round_that_stands_goes_with_the_next() -> None:
    packer, gradient = Packer(ME, config(Exchange.INT8)), noise(2)
    wanted, arrived = NeedParts(HALVES, frozenset({0})), np.zeros(LENGTH // 2, dtype=np.float64)
    errors = []
    for round_number in range(1, 9):
        packer.begin(0.0)
        packed = packer.parts(gradient, 1, wanted)
        arrived += decoded(packed.codecs[1], packed.payloads[1], LENGTH // 2)
        packer.end(committed(((0, 1), (0, 1))))
        meant = round_number * gradient[LENGTH // 2 :].astype(np.float64)
        errors.append(float(np.abs(arrived - meant).max()))
    scale = float(np.abs(gradient).max()) / 127
    assert max(errors) < 2.0 * scale  # the sum of eight rounds is off by no more than one


@pytest.mark.parametrize(
    "outcome", [Discarded("", None), committed(((0, 1), (1,)))], ids=["discarded", "not among the contributors"]
)
def test_what_did_not_count_leaves_nothing_behind(outcome: Committed | Discarded) -> None:
    packer, gradient, wanted = Packer(ME, config(Exchange.INT8)), noise(3), NeedParts(HALVES, frozenset({0}))
    packer.begin(0.0)
    first = packer.parts(gradient, 1, wanted)
    packer.end(outcome)
    packer.begin(0.0)
    assert packer.parts(gradient, 1, wanted).payloads == first.payloads
    packer.begin(0.0)  # a round that was never ended
    assert packer.parts(gradient, 1, wanted).payloads == first.payloads


def test_the_state_of_a_peer_ends_what_is_owed() -> None:
    packer, gradient, wanted = Packer(ME, config(Exchange.INT8)), noise(4), NeedParts(HALVES, frozenset({0}))
    packer.begin(0.0)
    first = packer.parts(gradient, 1, wanted)
    packer.end(committed(((0, 1), (0, 1))))
    assert packer.memory_bytes == 4 * LENGTH
    packer.forget()
    assert packer.memory_bytes == 0
    packer.begin(0.0)
    assert packer.parts(gradient, 1, wanted).payloads == first.payloads


def test_a_debt_from_a_large_round_never_makes_a_small_one_refused() -> None:
    """The residual of a sum over many samples may exceed what one sample may be."""
    bound, packer = CONFIG.max_gradient_norm, Packer(ME, config(Exchange.INT8))
    wanted, gradient = NeedParts(HALVES, frozenset({0})), noise(5)
    large = gradient * np.float32(1e5 * bound / global_norm(gradient))
    small = noise(6) * np.float32(0.99 * bound / global_norm(noise(6)))
    for samples, values in ((10**5, large), (1, small), (1, small), (1, small)):
        packer.begin(0.0)
        packed = packer.parts(values, samples, wanted)
        assert part_fault(packed.payloads[1], LENGTH // 2, samples * bound, packed.codecs[1]) == ""
        packer.end(committed(((0, 1), (0, 1))))


def test_float16_carries_sums_over_many_samples() -> None:
    samples, gradient = 2**20 + 5, noise(7, scale=0.5)
    packer = Packer(ME, config(Exchange.FLOAT16))
    packer.begin(0.0)
    packed = packer.parts(gradient * np.float32(samples), samples, NeedParts(HALVES, frozenset({0})))
    row = ReduceRow(0, samples, packed.payloads[1], packed.codecs[1])
    answer = packer.perform(Reduce((row,), LENGTH // 2, 1e3, 1, LENGTH // 2))
    assert isinstance(answer, Reduced)
    assert packer.saturated_count == 0
    mean = decoded(answer.codec, answer.payload, LENGTH // 2)
    np.testing.assert_allclose(mean, gradient[LENGTH // 2 :], rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize(("samples", "exponent"), [(1, 0), (2, 1), (3, 1), (4, 2), (1000, 9), (2**24, 24)])
def test_the_scale_of_float16(samples: int, exponent: int) -> None:
    assert sample_exponent(samples) == exponent


@pytest.mark.parametrize("exchange", [Exchange.FLOAT16, Exchange.INT8])
def test_numbers_that_no_codec_takes_are_sent_as_they_are(exchange: Exchange) -> None:
    gradient = noise(8)
    gradient[LENGTH - 1] = math.nan
    packer = Packer(ME, config(exchange))
    packer.begin(0.0)
    packed = packer.parts(gradient, 1, NeedParts(HALVES, frozenset({0})))
    assert packed.codecs[1] == CodecId.FLOAT32
    assert "nan" in part_fault(packed.payloads[1], LENGTH // 2, 1e3, 0)


def test_a_coarse_part_has_its_slack_and_no_more() -> None:
    codec = ELEMENTWISE.codec(CodecId.INT8)
    values = noise(9)
    payload, norm = codec.encode(values).payload, global_norm(codec.decode(codec.encode(values).payload, LENGTH))
    assert part_fault(payload, LENGTH, norm / CODED_NORM_SLACK * 1.001, CodecId.INT8) == ""
    assert "norm" in part_fault(payload, LENGTH, norm / CODED_NORM_SLACK * 0.999, CodecId.INT8)


# Whole rounds, simulated.


def sim(exchange: Exchange, peers: int = 4, length: int = LENGTH) -> SimNetwork:
    return SimNetwork(peers, RoundConfig(length, 2, 1e3, 8, exchange=exchange))


@pytest.mark.parametrize("exchange", list(Exchange))
def test_all_who_commit_hold_the_same_bits(exchange: Exchange) -> None:
    net = sim(exchange)
    net.start_round()
    net.run()
    assert set(net.outcomes().values()) == {"Committed"}
    means = [mean_of(result) for result in net.results().values()]
    assert len({mean.tobytes() for mean in means}) == 1
    exact = np.frombuffer(reference_mean(net, next(iter(net.results().values()))), dtype="<f4")
    error = float(np.abs(means[0] - exact).max()) / float(np.abs(exact).max())
    assert error <= {Exchange.FLOAT32: 0.0, Exchange.FLOAT16: 2e-3}.get(exchange, 5e-2)
    if exchange is not Exchange.FLOAT32:
        assert error > 0.0


def test_a_codec_that_the_project_does_not_use_costs_its_sender_the_part() -> None:
    net = sim(Exchange.FLOAT32, 3)
    liar = net.peers[0]
    honest = liar.spoil

    def coarse(message: object) -> object:
        if isinstance(message, Part):
            count = len(message.payload) // 4
            return Part(round_id=message.round_id, codec=CodecId.INT8, payload=bytes(count + 4 * -(-count // 4096)))
        return honest(message)  # type: ignore[arg-type]

    liar.spoil = coarse  # type: ignore[method-assign,assignment]
    net.start_round()
    net.run()
    assert {result.accepted for result in net.results().values()} == {(1, 2)}
    assert "does not use" in net.peers[1].faults[0].what


def test_an_average_in_a_codec_that_nobody_knows_voids_the_round() -> None:
    net = sim(Exchange.INT8, 3)
    liar = net.peers[2]

    def strange(message: object) -> object:
        if isinstance(message, AveragedPart):
            return AveragedPart(round_id=message.round_id, codec=77, contributors=(0,), payload=message.payload)
        return message

    liar.spoil = strange  # type: ignore[method-assign,assignment]
    net.start_round()
    net.run()
    assert "Committed" not in set(net.outcomes().values())
