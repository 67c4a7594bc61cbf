"""What an operator decides."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from engine.contract.errors import ControlError
from engine.contract.links import PROJECT_ID_CHARS, JoinLink, build_link
from engine.hub.limits import HubLimits
from engine.hub.turn import TurnAccess
from engine.identity.keys import PEER_ID_CHARS
from engine.signaling.messages import MAX_ROOM_PEERS, IceServer, Joined, SignalingError, decode_from_hub, encode_room

DEFAULT_DATABASE_NAME: Final = "hub.db"

PublishPolicy: TypeAlias = Literal["open"] | tuple[str, ...]
"""Who may publish: anyone, or the publishers with these ids."""


@dataclass(frozen=True, slots=True)
class HubConfig:
    """Everything that a hub needs to start."""

    database_url: str  # as SQLAlchemy spells it: "sqlite:////var/lib/potluck/hub.db"
    host: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    name: str = "Potluck hub"
    public_url: str = ""  # how others reach it; empty: as each request reached it
    ice_servers: tuple[IceServer, ...] = ()
    turn: TurnAccess | None = None
    publishers: PublishPolicy = "open"
    behind_proxy: bool = False  # a reverse proxy appends the caller's address to X-Forwarded-For
    kits_folder: Path | None = None  # files of training kits, for volunteers who reach nothing but this hub
    limits: HubLimits = field(default_factory=HubLimits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError("a port is a number from 0 to 65535")
        if self.public_url:
            try:
                build_link(JoinLink(hub=self.public_url, project="0" * PROJECT_ID_CHARS))
            except ControlError as error:
                raise ValueError(f"the public address cannot be used in links: {error}") from error
        if not 1 <= self.limits.max_room_peers <= MAX_ROOM_PEERS:
            raise ValueError(f"a room holds 1 to {MAX_ROOM_PEERS} peers")
        # What every peer is told on entry must fit a frame and be within the bounds that peers check.
        full_room = ("a" * PEER_ID_CHARS,) * (self.limits.max_room_peers - 1)
        try:
            decode_from_hub(
                encode_room(Joined(peers=full_room, ice_servers=self.servers_for("a" * PEER_ID_CHARS, 0.0)))
            )
        except SignalingError as error:
            raise ValueError(f"the ICE servers cannot be told to peers: {error}") from error

    def servers_for(self, peer_id: str, now: float) -> tuple[IceServer, ...]:
        """What a peer that enters at `now` is told; the relay's credential is its own, and passes."""
        return self.ice_servers + ((self.turn.server_for(peer_id, now),) if self.turn is not None else ())


def sqlite_url(path: Path) -> str:
    """The database URL of a SQLite file."""
    return f"sqlite:///{path.absolute().as_posix()}"
