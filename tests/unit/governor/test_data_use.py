import datetime

from hypothesis import given
from hypothesis import strategies as st

from engine.contract.snapshot import Settings
from engine.governor.data_use import DataUse, data_use

TODAY = datetime.date(2026, 3, 31)


def on(days_ago: int) -> str:
    return (TODAY - datetime.timedelta(days_ago)).isoformat()


def test_only_the_last_days_count():
    settings = Settings(data_cap_bytes=1000, data_cap_days=3)
    assert data_use({on(0): 10, on(2): 20, on(3): 900, on(-1): 5}, TODAY, settings) == DataUse(30)


def test_it_says_when_enough_has_passed():
    settings = Settings(data_cap_bytes=1000, data_cap_days=3)
    use = data_use({on(0): 900, on(1): 50, on(2): 200}, TODAY, settings)
    assert use == DataUse(1150, TODAY + datetime.timedelta(1), near=True)
    all_today = data_use({on(0): 1000}, TODAY, settings)
    assert all_today.frees_on == TODAY + datetime.timedelta(3)


def test_the_user_is_warned_from_four_fifths_on():
    settings = Settings(data_cap_bytes=1000, data_cap_days=3)
    assert not data_use({on(0): 799}, TODAY, settings).near
    assert data_use({on(0): 800}, TODAY, settings) == DataUse(800, None, near=True)
    assert data_use({on(0): 10**12}, TODAY, Settings(data_cap_bytes=None)) == DataUse(10**12)


@given(st.dictionaries(st.integers(0, 20).map(on), st.integers(0, 500)), st.integers(1, 15), st.integers(1, 2000))
def test_on_that_day_it_is_below_and_not_the_day_before(counts, days, cap):
    settings = Settings(data_cap_bytes=cap, data_cap_days=days)
    use = data_use(counts, TODAY, settings)
    assert (use.frees_on is None) == (use.used_bytes < cap)
    if use.frees_on is not None:
        assert data_use(counts, use.frees_on, settings).used_bytes < cap
        assert data_use(counts, use.frees_on - datetime.timedelta(1), settings).used_bytes >= cap
