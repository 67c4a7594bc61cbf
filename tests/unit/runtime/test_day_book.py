"""Counters since local midnight."""

import datetime

from hypothesis import given
from hypothesis import strategies as st

from engine.contract.snapshot import SessionState
from engine.runtime.days import DayBook, local_date
from engine.store.rows import DayCounters


def session(sent: int, received: int) -> SessionState:
    return SessionState(
        project_id="p",
        title="P",
        wire_bytes_sent=sent,
        wire_bytes_received=received,
        local_bytes_sent=10**9,
        local_bytes_received=10**9,
    )


def test_stored_and_new_add_up_and_are_taken_once() -> None:
    book = DayBook("2026-01-02", DayCounters(tokens_trained=100, rounds=1, bytes_sent=5))
    book.add_trained(30)
    book.add_round(20)
    assert (book.today().tokens_trained, book.today().tokens_accepted, book.today().rounds) == (130, 20, 2)
    assert book.take() == DayCounters(tokens_trained=30, tokens_accepted=20, rounds=1)
    assert book.take() == DayCounters()
    assert (book.today().tokens_trained, book.today().rounds, book.today().bytes_sent) == (130, 2, 5)


def test_midnight_begins_anew_with_what_was_not_taken() -> None:
    book = DayBook("2026-01-02", DayCounters(tokens_trained=100))
    book.add_trained(7)
    book.take()
    book.add_trained(3)  # between the last write of the old day and the turn
    book.turn_to("2026-01-03")
    assert book.date == "2026-01-03"
    assert book.today().tokens_trained == 3
    assert book.take() == DayCounters(tokens_trained=3)


def test_traffic_is_the_growth_of_the_sessions_counters_and_none_of_what_stayed_at_home() -> None:
    book = DayBook("2026-01-02", DayCounters())
    book.note_traffic(session(110, 3))
    book.note_traffic(session(115, 6))
    assert (book.today().bytes_sent, book.today().bytes_received) == (115, 6)


def test_another_session_counts_from_nothing() -> None:
    book = DayBook("2026-01-02", DayCounters())
    book.note_traffic(session(1000, 500))
    book.note_traffic(session(20, 600))  # one of the two is smaller: it is another session
    assert (book.today().bytes_sent, book.today().bytes_received) == (1020, 1100)
    book.session_over()
    book.note_traffic(session(30, 700))
    assert (book.today().bytes_sent, book.today().bytes_received) == (1050, 1800)


@given(st.lists(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6), max_size=4))
def test_sums_over_any_sessions_equal_what_they_carried(sessions: list[list[tuple[int, int]]]) -> None:
    """Each list is one session's growth."""
    book = DayBook("2026-01-02", DayCounters())
    for growth in sessions:
        sent = received = 0
        for more_sent, more_received in growth:
            sent, received = sent + more_sent, received + more_received
            book.note_traffic(session(sent, received))
        book.session_over()
    assert book.today().bytes_sent == sum(row[0] for growth in sessions for row in growth)
    assert book.today().bytes_received == sum(row[1] for growth in sessions for row in growth)


def test_the_date_is_the_local_one() -> None:
    noon = datetime.datetime(2026, 5, 17, 12, 0).astimezone()
    assert local_date(noon.timestamp()) == "2026-05-17"
    last = datetime.datetime(2026, 5, 17, 23, 59, 59).astimezone()
    assert local_date(last.timestamp()) == "2026-05-17"
    assert local_date(last.timestamp() + 2) == "2026-05-18"
