"""The web pages: everything escaped, nothing loaded, numbers in words."""

import base64
import hashlib
import re

import pytest

from engine.hub.pages import Pages, exact, rounded, short, view_of
from engine.hub.protocol import Board, BoardEntry
from engine.manifest.verify import open_signed
from tests.helpers.hub_samples import identity, sealed

ATTACK = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"


def board_of(name: str, peers_total: int = 1) -> Board:
    row = BoardEntry(
        peer_id=identity(1).peer_id,
        name=name,
        verified_tokens=1_234_567,
        pending_tokens=0,
        rejected_tokens=9,
        rounds=12,
    )
    return Board(project_id="01" * 32, rows=(row,), peers_total=peers_total, verified_tokens_total=1_234_567)


def test_titles_and_names_cannot_bring_markup() -> None:
    hostile = dict.fromkeys(("title", "summary", "publisher", "licence", "data_summary"), ATTACK)
    view = view_of(open_signed(sealed(identity(0), **hostile)), 3, 10)
    pages = Pages(ATTACK)
    texts = [
        pages.index([view]),
        pages.project(view, board_of("<b>bold</b><i>"), 'potluck://"><script>', ['"><script>']),
        pages.error(ATTACK, ATTACK),
    ]
    for text in texts:
        assert "<script" not in text
        assert "<img" not in text
        assert "<b>" not in text
        assert "&lt;script&gt;" in text


def test_pages_carry_no_script_and_a_policy_that_forbids_it() -> None:
    pages = Pages("Hub")
    text = pages.index([])
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in pages.content_security_policy
    assert "default-src 'none'" in pages.content_security_policy
    assert "script" not in pages.content_security_policy
    assert " style=" not in text


@pytest.mark.parametrize(
    ("peers", "sentence"),
    [(0, "Nobody is training this right now"), (1, "One computer is here now"), (4, "4 computers are training")],
)
def test_the_project_page_says_who_is_there(peers: int, sentence: str) -> None:
    view = view_of(open_signed(sealed(identity(0))), peers, 0)
    text = Pages("Hub").project(view, board_of("Ann", peers_total=7), "potluck://join?x", [])
    assert sentence in text
    assert "1,234,567" in text
    assert "The first 1 of 7." in text
    assert 'href="potluck://join?x"' in text
    assert "not installed" in text


def test_an_empty_board_says_when_it_will_fill() -> None:
    view = view_of(open_signed(sealed(identity(0))), 0, 0)
    empty = Board(project_id="01" * 32, rows=(), peers_total=0, verified_tokens_total=0)
    assert "No receipts yet" in Pages("Hub").project(view, empty, "potluck://join?x", [])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1 thousand"), (1_234_567, "1.2 million"), (7 * 10**9, "7 billion")],
)
def test_rounded_numbers_read_as_words(value: int, text: str) -> None:
    assert rounded(value) == text


def test_exact_numbers_and_short_ids() -> None:
    assert exact(1_234_567) == "1,234,567"
    assert short("abcdefghijkl") == "abcdefgh"
