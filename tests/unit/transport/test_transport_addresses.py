import asyncio

import pytest

from engine.transport.addresses import AddressWatch, has_moved, local_addresses

HOME, CAFE, CABLE = "192.168.1.2", "10.1.1.7", "192.168.1.3"


@pytest.mark.parametrize(
    ("base", "before", "after", "moved"),
    [
        (HOME, {HOME}, {CAFE}, True),
        (HOME, {HOME}, set(), True),
        (HOME, {HOME}, {HOME, CABLE}, False),
        (HOME, {HOME, CABLE}, {HOME}, False),
        (CAFE, {HOME}, set(), False),  # it never was one that the system listed
        ("", {HOME}, {HOME, CABLE}, False),
        ("", {HOME, CABLE}, {HOME}, True),
    ],
)
def test_who_is_cut_off(base: str, before: set[str], after: set[str], moved: bool) -> None:
    assert has_moved(base, frozenset(before), frozenset(after)) is moved


async def test_changes_are_told_once() -> None:
    reads = iter([{HOME}, {HOME}, set(), {CAFE}])
    told: list[tuple[frozenset[str], frozenset[str]]] = []
    done = asyncio.Event()

    def read() -> frozenset[str]:
        try:
            return frozenset(next(reads))
        except StopIteration:
            done.set()
            return frozenset({CAFE})

    watch = asyncio.create_task(AddressWatch(lambda old, new: told.append((old, new)), read, 0.0).run())
    async with asyncio.timeout(10):
        await done.wait()
    watch.cancel()
    await asyncio.wait({watch})
    assert told == [(frozenset({HOME}), frozenset()), (frozenset(), frozenset({CAFE}))]


def test_this_computers_addresses_are_addresses() -> None:
    assert all(address != "127.0.0.1" for address in local_addresses())
