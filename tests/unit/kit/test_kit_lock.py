"""The lock file of the training kits, and which kit fits a computer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kit.choose import Card, Computer, choose
from engine.kit.errors import _SENTENCES, KitFault, sentence_of
from engine.kit.lock import MAX_LOCK_BYTES, parse_lock
from engine.kit.service import bundled_lock
from tests.helpers.kit_samples import kit_of, lock_bytes, lock_of, torch_like

FILES = torch_like()
CPU = kit_of(FILES)
CUDA = kit_of(FILES, computes_on="cuda", minimum_driver="525.60.13")
MAC = kit_of(FILES, system="macos", machine="arm64", computes_on="mps")
LOCK = lock_of(cpu=CPU, cuda=CUDA, mac=MAC)
PC = Computer("linux", "x86_64", (3, 11))


def test_a_lock_is_read_as_it_was_written() -> None:
    assert parse_lock(lock_bytes(LOCK)) == LOCK
    assert CPU.download_bytes == sum(map(len, FILES.values()))


def test_the_lock_of_this_application_is_sound() -> None:
    lock = bundled_lock()
    assert all(kit.files[0].filename.startswith("torch-") for kit in lock.kits.values())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"format":1', b'"format":2'),
        (b"toytorch-1-py3", b"../toytorch-1-py3"),
        (b"toytorch-1-py3-none-any.whl", b"toytorch.tar.gz"),
        (b"toycompanion-1", b"toytorch-1"),
        (b'"linux"', b'"plan9"'),
        (b'"size_bytes":', b'"size_bytes":-'),
        (b'"sha256":"', b'"sha256":"g'),
        (b'"computes_on":"cpu"', b'"computes_on":"abacus"'),
        (b"}", b""),
    ],
)
def test_a_lock_that_is_not_sound_is_refused(before: bytes, after: bytes) -> None:
    data = lock_bytes(lock_of(cpu=CPU))
    assert before in data
    with pytest.raises(KitFault) as refused:
        parse_lock(data.replace(before, after))
    assert refused.value.code == "lock_unusable"
    assert not refused.value.retry


def test_a_lock_that_is_too_long_is_refused() -> None:
    with pytest.raises(KitFault, match="more than"):
        parse_lock(b" " * (MAX_LOCK_BYTES + 1))


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    with pytest.raises(KitFault):
        parse_lock(data)


def test_without_a_graphics_card_the_processor_computes() -> None:
    assert choose(LOCK, PC).name == "cpu"
    assert choose(LOCK, PC).passed_over == ""


@pytest.mark.parametrize(
    ("driver", "name", "passed"),
    [
        ("535.104.05", "cuda", ""),
        ("525.60.13", "cuda", ""),
        ("525.60.12", "cpu", "driver_old"),
        ("470", "cpu", "driver_old"),
        ("", "cpu", "driver_unreadable"),
        ("unknown", "cpu", "driver_unreadable"),
    ],
)
def test_the_driver_decides(driver: str, name: str, passed: str) -> None:
    card = Card("nvidia", "NVIDIA GeForce RTX 3060", driver)
    choice = choose(LOCK, Computer("linux", "x86_64", (3, 11), (card,)))
    assert (choice.name, choice.passed_over) == (name, passed)
    if passed:
        assert (choice.card, choice.driver_needed) == (card.name, "525.60.13")


def test_one_of_two_cards_is_enough() -> None:
    cards = (Card("nvidia", "old", "390.1"), Card("nvidia", "new", "560.2"))
    assert choose(LOCK, Computer("linux", "AMD64", (3, 11), cards)).name == "cuda"


def test_a_card_that_no_kit_is_for() -> None:
    choice = choose(LOCK, Computer("linux", "x86_64", (3, 11), (Card("amd", "Radeon"),)))
    assert (choice.name, choice.passed_over, choice.card) == ("cpu", "no_kit_for_card", "Radeon")


def test_a_mac_with_its_own_graphics() -> None:
    assert choose(LOCK, Computer("darwin", "arm64", (3, 11), (Card("apple", "Apple M2"),))).name == "mac"


@pytest.mark.parametrize(
    "computer",
    [Computer("linux", "riscv64", (3, 11)), Computer("linux", "x86_64", (3, 99)), Computer("sunos5", "", (3, 11))],
)
def test_a_computer_that_no_kit_is_for(computer: Computer) -> None:
    with pytest.raises(KitFault) as refused:
        choose(LOCK, computer)
    assert refused.value.code == "no_kit"


def test_every_fault_has_a_sentence_and_an_action() -> None:
    every = dict.fromkeys(("detail", "needed_gb", "free_gb", "path", "filename"), "x")
    for code in _SENTENCES:
        assert "{" not in sentence_of(code, dict(every))
        assert KitFault(code, dict(every)).action
