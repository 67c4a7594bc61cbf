"""Cards of the catalogue."""

from engine.contract.snapshot import Machine
from engine.hub.client import CatalogueEntry
from engine.manifest.parse import parameter_count
from engine.manifest.verify import open_signed
from engine.runtime.catalogue import WORKER_BYTES, cards
from tests.helpers.hub_samples import identity, sealed


def entry(name: str, peers: int = 3, tokens: int = 9) -> CatalogueEntry:
    signed = sealed(identity(9), name=name)
    return CatalogueEntry(signed, open_signed(signed), peers, tokens)


def per_hour(parameter_count: int) -> float | None:
    return 3.6e9 / parameter_count


def test_a_card_says_what_the_manifest_and_the_hub_say() -> None:
    tides, songs = entry("tides"), entry("songs", 0, 0)
    one, two = cards([tides, songs], songs.verified.project_id, Machine(memory_total_bytes=16_000_000_000), per_hour)
    assert (one.name, one.peers_now, one.tokens_verified, one.joined) == ("tides", 3, 9, False)
    assert (two.name, two.peers_now, two.joined) == ("songs", 0, True)
    assert one.project_id == tides.verified.project_id
    assert one.parameter_count == parameter_count(tides.verified.manifest)
    assert one.memory_needed_bytes > WORKER_BYTES
    assert one.unusable_because == ""
    assert one.tokens_per_hour == per_hour(one.parameter_count)


def test_a_computer_with_too_little_memory_is_told_so() -> None:
    (card,) = cards([entry("tides")], None, Machine(memory_total_bytes=100_000_000), per_hour)
    assert card.unusable_because == "It needs 0.5 GB of memory; this computer has 0.1 GB."


def test_memory_that_cannot_be_read_refuses_nothing() -> None:
    (card,) = cards([entry("tides")], None, Machine(), per_hour)
    assert card.unusable_because == ""
