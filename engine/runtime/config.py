"""What an engine is started with; everything else it reads from its store."""

from dataclasses import dataclass, field
from typing import Final

from engine.core.paths import Paths

DEFAULT_HUB_URL: Final = "http://127.0.0.1:8470"
"""Where `potluck hub` listens by default. There is no public hub yet, so the default is one's own."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Start options of one engine."""

    paths: Paths
    hub_url: str | None = None  # None: the stored one, else DEFAULT_HUB_URL
    join: str | None = None  # a project to join at once
    name: str | None = None  # display name to set
    use_keyring: bool = True
    loopback_only: bool = False  # peers are on this computer (demonstrations, tests)
    ignore_user_activity: bool = False  # a machine that nobody sits at
    ice_server_urls: tuple[str, ...] = field(default=())
    device: str = "auto"
