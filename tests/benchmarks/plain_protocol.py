"""What the benchmark and the plain loop say to each other: one JSON object a line. No torch here."""

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Train for `seconds`, with the processes `suspend` (parents first) standing still meanwhile."""

    seconds: float
    suspend: tuple[int, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` in `seconds` of accumulating, for which a processor computed `cpu_seconds`; then one optimizer step.

    All other processes computed for `others_cpu_seconds` meanwhile.
    """

    tokens: int
    seconds: float
    cpu_seconds: float
    others_cpu_seconds: float
    step_seconds: float
