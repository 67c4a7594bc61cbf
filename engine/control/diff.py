"""What changed between two state trees, as the fewest patches of depth two. PURE."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from engine.contract.codec import Patch
from engine.contract.snapshot import EngineState, Node

TOPICS: Final[tuple[str, ...]] = EngineState.__struct_fields__
"""The tree's top-level fields; patches are merged and paced for each."""


class BadPatch(ValueError):
    """A patch does not fit the tree that it is applied to."""


def changed_topics(old: EngineState, new: EngineState) -> tuple[str, ...]:
    """The top-level fields whose values differ."""
    return tuple(topic for topic in TOPICS if not _same(getattr(old, topic), getattr(new, topic)))


def diff(old: EngineState, new: EngineState, topics: Iterable[str], rev: int) -> list[Patch]:
    """Patches numbered from `rev` + 1 that turn `old`'s `topics` into `new`'s; the values are plain data."""
    patches: list[Patch] = []
    for topic in topics:
        before, after = getattr(old, topic), getattr(new, topic)
        if _same(before, after):
            continue
        changes: list[tuple[tuple[str, ...], Any, Any]]
        if isinstance(after, Node) and type(after) is type(before):
            changes = [
                ((topic, field), getattr(before, field), getattr(after, field))
                for field in after.__struct_fields__
                if not _same(getattr(before, field), getattr(after, field))
            ]
        else:
            changes = [((topic,), before, after)]
        patches += [_patch(rev + len(patches) + 1 + index, *change) for index, change in enumerate(changes)]
    return patches


def plain(state: EngineState) -> dict[str, Any]:
    """The tree as the dictionaries, lists and scalars that travel on the link."""
    tree: dict[str, Any] = msgspec.to_builtins(state)
    return tree


def apply(tree: dict[str, Any], patch: Patch) -> None:
    """Bring a received tree up to date, in place.

    Raises:
        BadPatch: the path names nothing in the tree, or `append` meets something that is no list.
    """
    parent = tree
    if len(patch.path) == 2:
        inner = tree.get(patch.path[0])
        if not isinstance(inner, dict):
            raise BadPatch(f"revision {patch.rev} changes a field of {patch.path[0]!r}, which has none")
        parent = inner
    elif len(patch.path) != 1:
        raise BadPatch(f"revision {patch.rev} has a path of {len(patch.path)} names")
    name = patch.path[-1]
    if patch.op == "set":
        parent[name] = patch.value
        return
    known = parent.get(name)
    if not isinstance(known, list | tuple) or not isinstance(patch.value, list | tuple):
        raise BadPatch(f"revision {patch.rev} appends to {name!r}, which is no list")
    parent[name] = [*known, *patch.value]


def _same(before: Any, after: Any) -> bool:
    return before is after or bool(before == after)


def _patch(rev: int, path: tuple[str, ...], before: Any, after: Any) -> Patch:
    if isinstance(before, tuple) and isinstance(after, tuple) and 0 < len(before) < len(after):
        count = len(before)
        if after[:count] == before:
            return Patch(rev=rev, path=path, op="append", value=msgspec.to_builtins(after[count:]))
    return Patch(rev=rev, path=path, value=msgspec.to_builtins(after))
