"""Two members, two lossy steps a round, one small quadratic: with feedback it converges, without it does not.

Member i holds f_i(x) = 0.5 |x - target|^2 + b_i . x, with b_1 = -b_2: the sum has its minimum at `target`, but the
members' gradients are large in some elements, as those of different data are. Beside these, int8 has no code for the
small ones, and a matrix of rank 1 has no room.
"""

import numpy as np

from engine.averaging.codecs.base import Codec, Vector
from engine.averaging.codecs.feedback import MeanFeedback, PartFeedback
from engine.averaging.codecs.float32 import Float32Codec
from engine.averaging.codecs.int8 import Int8Codec
from engine.averaging.codecs.layout import Piece
from engine.averaging.codecs.powersgd import PowerSgdCodec

LENGTH = 1024
ROUNDS = 800
DICE = np.random.default_rng(11)
TARGET: Vector = DICE.uniform(-0.1, 0.1, LENGTH).astype(np.float32)
OPPOSED: Vector = (np.arange(LENGTH) % 64 == 0).astype(np.float32)


def distance(codecs: list[Codec], mean_codec: Codec, opposition: float, *, with_feedback: bool) -> float:
    """How far from the minimum the members end, as a part of where they began. The rate falls as 1/t."""
    parts, means = [PartFeedback(LENGTH) for _ in codecs], MeanFeedback()
    weights = np.zeros(LENGTH, dtype=np.float32)
    for step in range(ROUNDS):
        arrived = []
        for codec, part, sign in zip(codecs, parts, (1, -1), strict=True):
            gradient = weights - TARGET + np.float32(sign * opposition) * OPPOSED
            arrived.append(pass_on(part, codec, gradient, with_feedback=with_feedback))
        mean = pass_on(means, mean_codec, (arrived[0] + arrived[1]) / np.float32(2.0), with_feedback=with_feedback)
        weights = weights - np.float32(5.0 / (50.0 + step)) * mean
    return float(np.linalg.norm(weights - TARGET) / np.linalg.norm(TARGET))


def pass_on(feedback: PartFeedback | MeanFeedback, codec: Codec, values: Vector, *, with_feedback: bool) -> Vector:
    feedback.begin()
    sent = feedback.encode(codec, 0, values)
    if with_feedback:
        feedback.commit()
    else:
        feedback.abort()
    if isinstance(codec, PowerSgdCodec):
        codec.keep_start(sent.encoded.payload)
    return sent.decoded


def powersgd() -> Codec:
    return PowerSgdCodec([Piece(32, 32, 0)], rank=1)


def test_exact_exchange_converges() -> None:
    exact = Float32Codec()
    assert distance([exact, exact], exact, 100.0, with_feedback=False) < 1e-3


def test_int8_converges_with_feedback_and_not_without() -> None:
    codec = Int8Codec()
    assert distance([codec, codec], codec, 100.0, with_feedback=False) > 0.95
    assert distance([codec, codec], codec, 100.0, with_feedback=True) < 0.05


def test_powersgd_converges_with_feedback_and_not_without() -> None:
    assert distance([powersgd(), powersgd()], powersgd(), 1.0, with_feedback=False) > 0.95
    assert distance([powersgd(), powersgd()], powersgd(), 1.0, with_feedback=True) < 0.05
