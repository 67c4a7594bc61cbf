"""What the two kinds of local link have in common."""

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["unix", "pipe"]
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
OnLink: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


class Listener(Protocol):
    """Something that accepts links."""

    kind: Kind
    address: str

    async def close(self) -> None:
        """Accept no more; links that stand are the caller's. Safe to repeat."""
        ...
