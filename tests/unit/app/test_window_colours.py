import re

import pytest

from app.desktop.roles import (
    DARK,
    LIGHT,
    OUTLINE_CONTRAST,
    OUTLINE_PAIRS,
    TEXT_CONTRAST,
    TEXT_PAIRS,
    Roles,
    contrast,
)
from app.desktop.theme import STYLESHEET


def test_contrast_of_black_and_white_is_the_standards_greatest() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert contrast("#FFFFFF", "#FFFFFF") == pytest.approx(1.0)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)  # WCAG's well-known near miss


@pytest.mark.parametrize("roles", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("pair", TEXT_PAIRS, ids="-on-".join)
def test_text_can_be_read(roles: Roles, pair: tuple[str, str]) -> None:
    assert contrast(getattr(roles, pair[0]), getattr(roles, pair[1])) >= TEXT_CONTRAST


@pytest.mark.parametrize("roles", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("pair", OUTLINE_PAIRS, ids="-on-".join)
def test_outlines_can_be_seen(roles: Roles, pair: tuple[str, str]) -> None:
    assert contrast(getattr(roles, pair[0]), getattr(roles, pair[1])) >= OUTLINE_CONTRAST


def test_the_stylesheet_pairs_only_colours_that_are_checked() -> None:
    """Within one rule that sets both, ink and ground are a pair of the table; none writes a colour of its own."""
    rules = STYLESHEET.read_text(encoding="utf-8")
    assert not re.search(r":[^;{]*#[0-9A-Fa-f]{3,8}\b", rules)
    checked = {*TEXT_PAIRS, ("outline", "surface"), ("surface", "learning")}
    for body in re.findall(r"\{([^{}]*(?:\$\{\w+\}[^{}]*)*)\}", rules):
        ink = re.search(r"(?<![-\w])color: \$\{(\w+)\}", body)
        ground = re.search(r"background: \$\{(\w+)\}", body)
        disabled = "border-color: ${hairline}" in body and ink is not None and ink.group(1) == "outline"
        if ink and ground and not disabled:
            assert (ink.group(1), ground.group(1)) in checked, body
