"""Token buckets, addresses, and what a configuration may say."""

import pytest

from engine.hub.config import HubConfig
from engine.hub.limits import MAX_TRACKED_ADDRESSES, AddressLimiter, HubLimits, Rate, TokenBucket, site_of
from engine.signaling.messages import IceServer


def test_a_bucket_allows_a_burst_and_then_a_rate() -> None:
    bucket = TokenBucket(Rate(per_second=2.0, burst=3.0), now=10.0)
    assert [bucket.take(1.0, 10.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(1.0, 10.5), bucket.take(1.0, 10.5)] == [True, False]
    assert [bucket.take(1.0, 1000.0) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(Rate(per_second=1.0, burst=1.0), now=10.0)
    assert bucket.take(1.0, 10.0)
    assert not bucket.take(1.0, 5.0)
    assert not bucket.take(1.0, 10.0)


def test_addresses_do_not_share_a_bucket_but_a_household_does() -> None:
    limiter = AddressLimiter(Rate(per_second=0.0, burst=1.0))
    assert limiter.allow("192.0.2.1", 0.0)
    assert not limiter.allow("192.0.2.1", 0.0)
    assert not limiter.allow("::ffff:192.0.2.1", 0.0)
    assert limiter.allow("192.0.2.2", 0.0)
    assert limiter.allow("2001:db8::1", 0.0)
    assert not limiter.allow("2001:db8::2", 0.0)
    assert limiter.allow("2001:db8:0:1::1", 0.0)


def test_the_oldest_address_is_forgotten() -> None:
    limiter = AddressLimiter(Rate(per_second=0.0, burst=1.0))
    assert limiter.allow("10.0.0.1", 0.0)
    for number in range(MAX_TRACKED_ADDRESSES):
        limiter.allow(f"11.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert limiter.allow("10.0.0.1", 0.0)


def test_what_is_no_address_counts_as_one_caller() -> None:
    assert site_of("") == site_of("unix:") == "unknown"


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 70000},
        {"port": -1},
        {"public_url": "hub.example.org"},
        {"public_url": "https://user:password@hub.example.org"},
        {"limits": HubLimits(max_room_peers=0)},
        {"limits": HubLimits(max_room_peers=10_000)},
        {"ice_servers": (IceServer(urls=()),)},
        {"ice_servers": (IceServer(urls=("stun:" + "x" * 400,)),)},
    ],
)
def test_a_configuration_that_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"port|room|ICE|public address"):
        HubConfig(database_url="sqlite:///hub.db", **wrong)  # type: ignore[arg-type]
