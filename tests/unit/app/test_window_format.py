import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import format as fmt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999_999, "999,999"),
        (1_240_000, "1.24 million"),
        (3_910_000_000, "3.91 billion"),
        (10**13, "10.0 trillion"),
    ],
)
def test_counts_read_as_people_say_them(value: int, text: str) -> None:
    assert fmt.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_900_000_000, "1.9 GB"), (92_400_000, "92.4 MB"), (486_000_000, "486 MB")],
)
def test_sizes_have_three_digits_and_a_unit(value: int, text: str) -> None:
    assert fmt.size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.038, "38 ms"), (42, "42 s"), (600, "10 min"), (7200, "2 h"), (3 * 86400, "3 days")],
)
def test_durations_use_their_largest_unit(seconds: float, text: str) -> None:
    assert fmt.duration(seconds) == text


def test_what_is_unknown_is_never_a_number() -> None:
    assert fmt.size(None) == fmt.DASH
    assert fmt.loss(None) == fmt.loss(math.nan) == fmt.loss(math.inf) == fmt.DASH
    assert fmt.rate(None, "tokens/s") == fmt.rate(math.inf, "tokens/s") == fmt.DASH
    assert fmt.celsius(None) == fmt.of_total(None, 5) == fmt.of_total(5, None) == "cannot read"


def test_a_time_of_another_day_names_the_day() -> None:
    today = time.time()
    assert len(fmt.clock(today)) == len("14:02")
    assert len(fmt.clock(today, with_seconds=True)) == len("14:02:33")
    assert fmt.clock(today - 10 * 86400).endswith(fmt.clock(today)[-5:])
    assert "/" in fmt.clock(today - 10 * 86400)


@given(st.text(max_size=400))
def test_foreign_text_becomes_one_bounded_printable_line(text: str) -> None:
    line = fmt.one_line(text, 50)
    assert len(line) <= 50
    assert line.isprintable()
    assert "\n" not in line


def test_a_computer_without_a_name_shows_the_start_of_its_key() -> None:
    assert fmt.peer_name("Ada's attic", "abcdefgh") == "Ada's attic"
    assert fmt.peer_name("  \n", "abcdefgh") == "Unnamed (abcdef)"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_float_has_a_text(value: float) -> None:
    assert fmt.significant(value)


def test_an_unknown_kind_of_line_is_a_dash() -> None:
    assert fmt.line_kind("relayed") == "relayed"
    assert fmt.line_kind("smoke signals") == fmt.DASH
