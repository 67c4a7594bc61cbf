"""Whose word is taken, and for how long not."""

from engine.swarm.membership import MAX_REMEMBERED_OFFENDERS, Membership


def test_distrust_doubles_up_to_a_limit_and_ends() -> None:
    members = Membership(stale_seconds=30.0, distrust_seconds=10.0, max_distrust_seconds=35.0)
    for span in (10.0, 20.0, 35.0, 35.0):
        members.distrust("p", 100.0)
        assert not members.is_trusted("p", 100.0 + span - 0.1)
        assert members.is_trusted("p", 100.0 + span)


def test_the_list_of_offenders_is_bounded() -> None:
    members = Membership(stale_seconds=30.0, distrust_seconds=10.0, max_distrust_seconds=600.0)
    for number in range(MAX_REMEMBERED_OFFENDERS + 1):
        members.distrust(f"p{number}", 0.0)
    assert members.is_trusted("p0", 1.0)
    assert not members.is_trusted("p1", 1.0)
