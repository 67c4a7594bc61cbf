from engine.training.restart import RestartPolicy


def test_three_quick_deaths_are_enough() -> None:
    policy = RestartPolicy()
    assert [policy.on_death(5.0) for _ in range(3)] == [1.0, 2.0, None]


def test_a_long_life_is_forgiven() -> None:
    policy = RestartPolicy()
    assert policy.on_death(5.0) == 1.0
    assert policy.on_death(5.0) == 2.0
    assert policy.on_death(3600.0) == 1.0
    assert policy.on_death(5.0) == 2.0
    assert policy.on_death(5.0) is None


def test_the_delay_has_an_end() -> None:
    policy = RestartPolicy(give_up_after=100)
    delays = [policy.on_death(0.0) for _ in range(20)]
    assert delays[-1] == 60.0
    assert delays == sorted(delay for delay in delays if delay is not None)


def test_the_user_may_ask_for_another_try() -> None:
    policy = RestartPolicy()
    while policy.on_death(1.0) is not None:
        pass
    policy.reset()
    assert policy.on_death(1.0) == 1.0
