"""What an engine is started with; everything else it reads from its store."""

from dataclasses import dataclass, field
from typing import Final

from engine.contract.errors import ControlError
from engine.contract.settings import SettingValue, changed
from engine.contract.snapshot import Settings
from engine.core.errors import UserError
from engine.core.paths import Paths
from engine.hub.client import checked_hub_url

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


def settings_at_start(config: EngineConfig, stored: Settings) -> Settings:
    """The stored settings with what the start options say.

    Raises:
        UserError: an option cannot be used.
    """
    changes: dict[str, SettingValue] = {}
    if config.hub_url:
        changes["hub_url"] = checked_hub_url(config.hub_url)
    elif not stored.hub_url:
        changes["hub_url"] = DEFAULT_HUB_URL
    if config.name is not None:
        changes["display_name"] = config.name
    if config.ignore_user_activity:
        # Nobody to be a guest of; and the other programs may be more volunteers.
        changes |= {
            "pause_while_in_use": False,
            "foreign_cpu_percent": 0,
            "cpu_share_in_use_percent": stored.cpu_share_percent,
        }
    try:
        return changed(stored, changes)
    except ControlError as error:
        raise UserError(f"The option cannot be used: {error.params.get('detail', '')}.") from error
