"""The other computers as a table."""

from typing import Any

from PySide6.QtCore import QObject, Qt

from app.desktop.theme import Theme
from app.format import DASH, duration, line_kind, peer_name, rate, whole
from app.language import say
from app.models.table import Column, StructTable
from engine.contract.snapshot import PeerInfo


def line_text(peer: PeerInfo) -> str:
    """How it is reached, or that it is not."""
    return line_kind(peer.path) if peer.connected else say("peers", "not connected")


def ordered(peers: tuple[PeerInfo, ...]) -> tuple[PeerInfo, ...]:
    """Connected ones first, each group in order of their ids, so that rows do not jump about."""
    return tuple(sorted(peers, key=lambda peer: (not peer.connected, peer.peer_id)))


class PeersModel(StructTable[PeerInfo]):
    """Name, line, round, pace, delay."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        columns = [
            Column[PeerInfo](say("peers", "Computer"), lambda peer: peer_name(peer.name, peer.peer_id)),
            Column[PeerInfo](say("peers", "Line"), line_text),
            Column[PeerInfo](
                say("peers", "Round"),
                lambda peer: DASH if peer.global_step is None else whole(peer.global_step),
                numeric=True,
            ),
            Column[PeerInfo](
                say("peers", "Samples/s"), lambda peer: rate(peer.samples_per_second, "").strip(), numeric=True
            ),
            Column[PeerInfo](
                say("peers", "Delay"),
                lambda peer: DASH if peer.round_trip_seconds is None else duration(peer.round_trip_seconds),
                numeric=True,
            ),
        ]
        super().__init__(columns, lambda peer: peer.peer_id, parent)
        self._theme = theme

    def decoration(self, row: PeerInfo, role: int) -> Any:
        return self._theme.font(14) if role == Qt.ItemDataRole.FontRole else None
