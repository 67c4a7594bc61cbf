"""Faults of lines, hubs, relays and strangers, with real routers: the short form of `make lab-faults`."""

from collections.abc import Iterator

import pytest

from tests.lab.faults import try_out
from tests.lab.topology import run, why_unavailable

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

NUMBER = 8
LOST = ("silence", "failed", "closed")  # which of them depends on who notices first


@pytest.fixture(autouse=True)
def lab_here() -> Iterator[None]:
    why = why_unavailable()
    if why:
        pytest.skip(why)
    yield
    assert f"potlab{NUMBER}" not in run("ip", "netns", "list")


def test_a_computer_that_gets_another_address_is_back_without_waiting_for_silence() -> None:
    found = try_out("address_changes", NUMBER)
    assert found.get("code") == "moved", found
    assert found["back_seconds"] > 0.0


def test_without_the_hub_two_homes_meet_again_through_a_third() -> None:
    found = try_out("hub_is_gone", NUMBER)
    assert found.get("links_lost_with_the_hub") == 0, found
    assert found["code"] in LOST
    assert found["back_seconds"] > 0.0


def test_a_relay_that_restarts_is_used_again() -> None:
    found = try_out("relay_restarts", NUMBER)
    assert found.get("code") in LOST, found
    assert found["back_seconds"] > 0.0


def test_rubbish_at_line_rate_costs_its_sender_the_link_and_nobody_else_anything() -> None:
    found = try_out("rubbish_at_line_rate", NUMBER)
    assert found.get("codes") == ["protocol"], found
    assert found["links_lost"] == 0
