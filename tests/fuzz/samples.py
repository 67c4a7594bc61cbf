"""A valid value for any bounded msgspec type, made from what the type says; so new fields are covered at once."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from tests.helpers.introductions import identities

PEERS: Final = tuple(identity.peer_id for identity in identities(2))
_TEXTS: Final = ("a text", "", *PEERS[:1], "0" * 64, "linux", "x86_64", "3.11", "cpu", "550.54", "stored", "code")
_MAX_DEPTH: Final = 12


def values_of(kind: Any) -> Iterator[Any]:
    """A valid value of `kind`; of a union one of each member."""
    info = inspect.type_info(kind)
    for member in info.types if isinstance(info, inspect.UnionType) else (info,):
        yield _value(member, 0)


def _value(info: inspect.Type, depth: int) -> Any:
    assert depth < _MAX_DEPTH, info
    match info:
        case inspect.Metadata(type=inner):
            return _value(inner, depth)
        case inspect.BoolType():
            return True
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
        case inspect.StrType():
            return _text(info)
        case inspect.BytesType(min_length=least):
            return b"\x05" * (least if least is not None else 5)
        case inspect.RawType():
            return msgspec.Raw(b"{}")
        case inspect.AnyType():
            return "anything"
        case inspect.NoneType():
            return None
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.EnumType(cls=cls):
            return next(iter(cls))
        case inspect.UnionType(types=types):
            return _value(types[0], depth)
        case _:
            return _collection(info, depth + 1)


def _collection(info: inspect.Type, depth: int) -> Any:
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _value(field.type, depth) for field in fields})
        case inspect.VarTupleType(item_type=item, min_length=least):
            return tuple(_value(item, depth) for _ in range(max(1, least or 0)))
        case inspect.TupleType(item_types=items):
            return tuple(_value(item, depth) for item in items)
        case inspect.ListType(item_type=item):
            return [_value(item, depth)]
        case inspect.DictType(key_type=key, value_type=value):
            return {_value(key, depth): _value(value, depth)}
    raise AssertionError(f"no sample for {info}")


def _number(info: inspect.IntType | inspect.FloatType) -> float:
    least = max((bound for bound in (info.ge, info.gt) if bound is not None), default=None)
    most = min((bound for bound in (info.le, info.lt) if bound is not None), default=None)
    value = 1 if least is None or least < 1 else least + (info.gt is not None)
    return min(value, most) if most is not None else value


def _text(info: inspect.StrType) -> str:
    for text in _TEXTS:
        fits = (info.min_length or 0) <= len(text) and (info.max_length is None or len(text) <= info.max_length)
        if fits and (info.pattern is None or re.search(info.pattern, text)):
            return text
    raise AssertionError(f"no text for {info}")
