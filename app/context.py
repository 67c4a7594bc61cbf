"""What every page needs: the link, the mirror, the look, the window's preferences."""

from dataclasses import dataclass

from app.desktop.theme import Theme
from app.link.client import EngineLink
from app.link.launcher import EngineLauncher
from app.profile import Profile
from app.state.mirror import Mirror
from app.state.preferences import Preferences


@dataclass(frozen=True, slots=True)
class Context:
    """Built once by `app.bootstrap` and handed to whoever draws."""

    profile: Profile
    link: EngineLink
    launcher: EngineLauncher
    mirror: Mirror
    theme: Theme
    preferences: Preferences
