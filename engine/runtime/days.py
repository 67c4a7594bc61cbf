"""Counters since local midnight: what is stored of today, and what is not stored yet."""

import datetime
from dataclasses import dataclass

from engine.contract.snapshot import SessionState, Today
from engine.store.rows import DayCounters


def local_date(now: float) -> str:
    """The local date at `now` (seconds since the epoch), YYYY-MM-DD."""
    return datetime.datetime.fromtimestamp(now).astimezone().date().isoformat()


@dataclass(slots=True)
class DayBook:
    """Adds up between two writes to the store."""

    date: str
    stored: DayCounters
    _tokens_trained: int = 0
    _tokens_accepted: int = 0
    _rounds: int = 0
    _bytes_sent: int = 0
    _bytes_received: int = 0
    _wire: tuple[int, int] = (0, 0)

    def add_trained(self, tokens: int) -> None:
        """Tokens processed here."""
        self._tokens_trained += tokens

    def add_round(self, my_tokens: int) -> None:
        """A committed round."""
        self._rounds += 1
        self._tokens_accepted += my_tokens

    def note_traffic(self, session: SessionState) -> None:
        """Learn from the session's counters, which begin anew with each session. What stays at home costs nothing."""
        sent, received = self._wire
        if session.wire_bytes_sent < sent or session.wire_bytes_received < received:
            sent, received = 0, 0
        self._bytes_sent += session.wire_bytes_sent - sent
        self._bytes_received += session.wire_bytes_received - received
        self._wire = (session.wire_bytes_sent, session.wire_bytes_received)

    def session_over(self) -> None:
        """The next one's counters begin at nothing."""
        self._wire = (0, 0)

    def today(self) -> Today:
        """Stored and not yet stored together."""
        return Today(
            tokens_trained=self.stored.tokens_trained + self._tokens_trained,
            tokens_accepted=self.stored.tokens_accepted + self._tokens_accepted,
            rounds=self.stored.rounds + self._rounds,
            bytes_sent=self.stored.bytes_sent + self._bytes_sent,
            bytes_received=self.stored.bytes_received + self._bytes_received,
        )

    def take(self) -> DayCounters:
        """What is to be written now; it counts as stored from here on."""
        more = DayCounters(
            tokens_trained=self._tokens_trained,
            tokens_accepted=self._tokens_accepted,
            rounds=self._rounds,
            bytes_sent=self._bytes_sent,
            bytes_received=self._bytes_received,
        )
        total = self.today()
        self.stored = DayCounters(
            tokens_trained=total.tokens_trained,
            tokens_accepted=total.tokens_accepted,
            rounds=total.rounds,
            bytes_sent=total.bytes_sent,
            bytes_received=total.bytes_received,
        )
        self._tokens_trained = self._tokens_accepted = self._rounds = 0
        self._bytes_sent = self._bytes_received = 0
        return more

    def turn_to(self, date: str) -> None:
        """Midnight passed; call after `take`."""
        self.date, self.stored = date, DayCounters()
