from engine.transport.drip import LEAST_BYTES, LOOK_SECONDS, DripWatch


def test_a_message_that_goes_on_is_no_drip() -> None:
    watch, received = DripWatch(), 0
    for second in range(600):
        received += LEAST_BYTES // 50
        assert not watch.look(received, received, float(second))


def test_a_message_that_stands_still_is_one() -> None:
    watch = DripWatch()
    assert not watch.look(500, 500, 0.0)
    assert not watch.look(500, 500, LOOK_SECONDS - 1.0)
    assert watch.look(600, 600, LOOK_SECONDS)


def test_a_fast_beginning_buys_no_time() -> None:
    watch = DripWatch()
    watch.look(1, 1, 0.0)
    assert not watch.look(10**8, 10**8, LOOK_SECONDS)
    assert watch.look(10**8 + 9, 10**8 + 9, 2 * LOOK_SECONDS)


def test_nothing_held_is_nothing_owed() -> None:
    watch = DripWatch()
    watch.look(5, 5, 0.0)
    assert not watch.look(0, 10, 50.0)
    assert not watch.look(5, 15, 100.0)
    assert not watch.look(5, 15, 150.0)
    assert watch.look(5, 15, 161.0)
