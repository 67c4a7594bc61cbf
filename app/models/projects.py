"""The catalogue: what can be joined, in the order in which it is shown."""

from typing import Final

from engine.contract.snapshot import ProjectCard

MAX_SHOWN: Final = 60
"""Cards on one page; a longer catalogue is searched."""
SEARCH_FROM: Final = 7
"""From so many projects on there is a search field."""


def matches(card: ProjectCard, words: str) -> bool:
    """Whether all of `words` occur in what the card says."""
    text = " ".join((card.title, card.name, card.summary, card.publisher, card.data_summary, card.licence)).casefold()
    return all(word in text for word in words.casefold().split())


def shown(cards: tuple[ProjectCard, ...], words: str = "") -> tuple[ProjectCard, ...]:
    """The joined one first, then those that this computer can join, by how many take part; at most MAX_SHOWN."""
    found = [card for card in cards if matches(card, words)]
    found.sort(key=lambda card: (not card.joined, bool(card.unusable_because), -(card.peers_now or 0), card.title))
    return tuple(found[:MAX_SHOWN])
