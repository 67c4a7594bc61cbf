"""Colours by role, light and dark, and the contrast that each pair must keep. No Qt."""

from dataclasses import dataclass
from typing import Final

TEXT_CONTRAST: Final = 4.5
"""WCAG 2.1, 1.4.3, level AA, for text of ordinary size."""
OUTLINE_CONTRAST: Final = 3.0
"""WCAG 2.1, 1.4.11, for outlines of controls and parts of charts."""


@dataclass(frozen=True, slots=True)
class Roles:
    """One scheme. All values are "#RRGGBB"."""

    background: str
    surface: str
    raised: str
    text: str
    muted: str
    action: str
    on_action: str
    action_hover: str
    learning: str
    waiting: str
    problem: str
    verified: str
    outline: str
    hairline: str  # decoration only, never the one sign of a control


LIGHT: Final = Roles(
    background="#FBF8F3",
    surface="#FFFFFF",
    raised="#F3EEE6",
    text="#1F1B16",
    muted="#5E564C",
    action="#A8431D",
    on_action="#FFFFFF",
    action_hover="#8C3515",
    learning="#0B6A66",
    waiting="#7A5200",
    problem="#B3261E",
    verified="#2B6A36",
    outline="#8F8475",
    hairline="#E4DCD0",
)

DARK: Final = Roles(
    background="#171411",
    surface="#201C18",
    raised="#2A2520",
    text="#F2EBE1",
    muted="#B5AA9C",
    action="#F0905F",
    on_action="#1F1B16",
    action_hover="#F7A87F",
    learning="#5CC4BE",
    waiting="#E5B454",
    problem="#FF8A80",
    verified="#86C98F",
    outline="#7D7264",
    hairline="#38312A",
)

_SURFACES: Final = ("background", "surface", "raised")
_TEXTS: Final = ("text", "muted", "action", "learning", "waiting", "problem", "verified")
TEXT_PAIRS: Final = (
    *((ink, ground) for ink in _TEXTS for ground in _SURFACES),
    ("on_action", "action"),
    ("on_action", "action_hover"),
)
"""Every pair of text and ground that the window uses."""
OUTLINE_PAIRS: Final = tuple((ink, ground) for ink in ("outline", "learning", "action") for ground in _SURFACES)


def luminance(colour: str) -> float:
    """Relative luminance of "#RRGGBB" (WCAG 2.1)."""

    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)

    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.1)."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
