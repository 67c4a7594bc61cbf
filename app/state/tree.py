"""Snapshot and patches applied to a typed state, decoding only what was touched."""

from typing import Any, get_type_hints

import msgspec

from engine.contract.codec import Patch
from engine.contract.snapshot import EngineState

FIELD_TYPES: dict[str, Any] = get_type_hints(EngineState)
FIELDS: tuple[str, ...] = tuple(FIELD_TYPES)


class BadState(ValueError):
    """A snapshot or patch does not fit the tree; the text says where."""


class StateTree:
    """The state as sent (plain values) and as typed structs, kept in step."""

    def __init__(self, raw: dict[str, Any]) -> None:
        """Raises BadState when `raw` is not an EngineState."""
        self._raw = dict(raw)
        try:
            self.state = msgspec.convert(raw, EngineState)
        except msgspec.ValidationError as error:
            raise BadState(str(error)) from error

    def apply(self, patch: Patch) -> str | None:
        """Apply a patch; the top-level field that changed, or None when it is one that this window does not know.

        Raises:
            BadState: the path leads nowhere or the value does not fit; the tree is then not to be used any more.
        """
        if len(patch.path) not in (1, 2):
            raise BadState(f"a path of {len(patch.path)} names")
        field = patch.path[0]
        if field not in FIELD_TYPES:
            return None
        if patch.op == "append":
            self._append(patch, field)
        else:
            self._set(patch, field)
        return field

    def _set(self, patch: Patch, field: str) -> None:
        if len(patch.path) == 1:
            self._raw[field] = patch.value
        else:
            holder = self._holder(field)
            holder[patch.path[1]] = patch.value
        self._replace(field, self._typed(field, self._raw.get(field)))

    def _append(self, patch: Patch, field: str) -> None:
        if not isinstance(patch.value, (list, tuple)):
            raise BadState(f"{field}: what is appended is not a list")
        if len(patch.path) == 2:
            holder = self._holder(field)
            before = holder.get(patch.path[1], [])
            if not isinstance(before, (list, tuple)):
                raise BadState(f"{field}.{patch.path[1]} is not a list")
            holder[patch.path[1]] = [*before, *patch.value]
            self._replace(field, self._typed(field, holder))
            return
        held = getattr(self.state, field)
        if not isinstance(held, tuple):
            raise BadState(f"{field} is not a list")
        self._raw[field] = None  # long lists are kept once, typed; the next whole value replaces both
        self._replace(field, held + self._typed(field, patch.value))

    def _holder(self, field: str) -> dict[str, Any]:
        holder = self._raw.get(field)
        if holder is None and getattr(self.state, field) is not None:
            holder = msgspec.to_builtins(getattr(self.state, field))
        if not isinstance(holder, dict):
            raise BadState(f"{field} has no parts to change")
        self._raw[field] = holder = dict(holder)
        return holder

    def _typed(self, field: str, value: Any) -> Any:
        try:
            return msgspec.convert(value, FIELD_TYPES[field])
        except msgspec.ValidationError as error:
            raise BadState(f"{field}: {error}") from error

    def _replace(self, field: str, value: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **{field: value})
