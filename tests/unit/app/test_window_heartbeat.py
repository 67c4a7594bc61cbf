from app.link.heartbeat import Heartbeat
from app.link.operation import Failure, FailureKind, Operation


class Questions:
    """Keeps what a heartbeat asks, and whether it reported silence."""

    def __init__(self) -> None:
        self.asked: list[Operation] = []
        self.silences = 0
        self.heart = Heartbeat(self._ask)
        self.heart.fell_silent.connect(self._count)

    def _ask(self, _patience_milliseconds: int) -> Operation:
        self.asked.append(Operation("ping"))
        return self.asked[-1]

    def _count(self) -> None:
        self.silences += 1


def test_a_question_without_any_sound_is_silence() -> None:
    questions = Questions()
    questions.heart.beat()
    questions.asked[0].fail(Failure(FailureKind.TIMED_OUT))
    assert questions.silences == 1


def test_whatever_is_heard_counts_as_an_answer() -> None:
    questions = Questions()
    questions.heart.beat()
    questions.heart.hear()
    questions.asked[0].fail(Failure(FailureKind.TIMED_OUT))
    assert questions.silences == 0
    questions.heart.beat()
    questions.asked[1].fail(Failure(FailureKind.TIMED_OUT))
    assert questions.silences == 1


def test_a_lost_link_is_not_silence() -> None:
    questions = Questions()
    questions.heart.beat()
    questions.asked[0].fail(Failure(FailureKind.LOST))
    assert questions.silences == 0
