"""The engine's side of the hub's HTTP API: every call has a deadline, every reply a size, and nothing is believed."""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from engine.core.errors import UserError
from engine.hub.errors import HubNonsense, HubRefused, HubUnreachable
from engine.hub.limits import MAX_RECEIPTS_PER_POST
from engine.hub.protocol import (
    Board,
    ErrorReply,
    HubInfo,
    NameClaim,
    NameStored,
    ProjectEntry,
    Published,
    RawProjectPage,
    ReceiptPage,
    ReceiptResult,
    ReceiptResults,
    SignedName,
    name_bytes,
)
from engine.identity.keys import Identity
from engine.ledger.receipts import SignedReceipt
from engine.manifest.errors import ManifestError
from engine.manifest.schema import SignedManifest
from engine.manifest.verify import VerifiedManifest, open_signed

log = logging.getLogger(__name__)

T = TypeVar("T")

CALL_SECONDS: Final = 10.0
MAX_URL_CHARS: Final = 300
MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
MAX_ERROR_BYTES: Final = 16 * 1024
MAX_CATALOGUE_PAGES: Final = 50
MAX_DETAIL_CHARS: Final = 200
_CHUNK_BYTES: Final = 64 * 1024
_NO_HUB: Final = "its answer is not one of a hub"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A project whose manifest was verified here."""

    signed: SignedManifest
    verified: VerifiedManifest
    peers_now: int
    tokens_verified: int


@dataclass(frozen=True, slots=True)
class DroppedEntry:
    """A project that the hub listed and this program refuses. `index` is its place in the hub's list."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What the hub lists, newest first, and what of it was dropped."""

    projects: tuple[CatalogueEntry, ...]
    dropped: tuple[DroppedEntry, ...]


class HubClient:
    """Calls one hub. The session belongs to the caller.

    Every method may raise HubUnreachable, HubNonsense or HubRefused (all PeerError, all with `url` and `detail`).
    """

    def __init__(
        self, base_url: str, identity: Identity, session: aiohttp.ClientSession, timeout_seconds: float = CALL_SECONDS
    ) -> None:
        """`timeout_seconds` bounds each call as a whole, from name lookup to the reply's last byte.

        Raises:
            UserError: `base_url` is not the address of a hub.
        """
        self.base_url = checked_hub_url(base_url)
        self._identity = identity
        self._session = session
        self._timeout_seconds = timeout_seconds

    async def hub(self) -> HubInfo:
        """Who the hub is."""
        return await self._get("/api/v1/hub", HubInfo)

    async def projects(self) -> Catalogue:
        """The whole catalogue, at most MAX_CATALOGUE_PAGES pages. A bad entry spoils only itself."""
        good: list[CatalogueEntry] = []
        dropped: list[DroppedEntry] = []
        path, cursor = "/api/v1/projects", None
        for _ in range(MAX_CATALOGUE_PAGES):
            page = await self._get(path if cursor is None else f"{path}?after={cursor}", RawProjectPage)
            for raw in page.projects:
                index = len(good) + len(dropped)
                try:
                    good.append(_opened(raw))
                except ManifestError as error:
                    dropped.append(DroppedEntry(index, str(error)[:MAX_DETAIL_CHARS]))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    log.debug("entry %d of %s: %s", index, self.base_url, error)
                    dropped.append(DroppedEntry(index, "the hub's entry for it cannot be read"))
            if page.next is None or (cursor is not None and page.next >= cursor):
                break
            cursor = page.next
        return Catalogue(tuple(good), tuple(dropped))

    async def publish(self, signed: SignedManifest) -> Published:
        """Publish a project. Publishing what is there already succeeds and changes nothing."""
        return await self._post("/api/v1/projects", signed, Published)

    async def leaderboard(self, project_id: str, days: int | None = None) -> Board:
        """The board of a project, of all time or of the last `days`."""
        query = "" if days is None else f"?days={days}"
        return await self._get(f"/api/v1/projects/{_checked_id(project_id)}/leaderboard{query}", Board)

    async def receipts(self, project_id: str, after: int = 0) -> ReceiptPage:
        """A page of the stored receipts behind the cursor `after`; their signatures are not checked here."""
        return await self._get(f"/api/v1/projects/{_checked_id(project_id)}/receipts?after={after}", ReceiptPage)

    async def post_receipts(self, receipts: Sequence[SignedReceipt]) -> tuple[ReceiptResult, ...]:
        """Hand receipts in, MAX_RECEIPTS_PER_POST a call; the results are in the same order. Safe to repeat.

        When a later call fails the earlier ones stand; post all of them again then.
        """
        results: list[ReceiptResult] = []
        for start in range(0, len(receipts), MAX_RECEIPTS_PER_POST):
            batch = receipts[start : start + MAX_RECEIPTS_PER_POST]
            reply = await self._post("/api/v1/receipts", {"receipts": batch}, ReceiptResults)
            if len(reply.results) != len(batch):
                detail = f"{len(reply.results)} results for {len(batch)} receipts"
                raise HubNonsense(f"{self.base_url}/api/v1/receipts", detail)
            results.extend(reply.results)
        return tuple(results)

    async def set_name(self, name: str, at: float) -> NameStored:
        """Be shown as `name` from now on; "" takes the name away. `at`: seconds since the epoch, later than before."""
        claim = NameClaim(peer_id=self._identity.peer_id, name=name, at=at)
        signature = self._identity.sign(name_bytes(claim))
        signed = SignedName(peer_id=claim.peer_id, name=name, at=at, signature=signature)
        return await self._post("/api/v1/names", signed, NameStored)

    async def _get(self, path: str, kind: type[T]) -> T:
        return await self._call("GET", path, None, kind)

    async def _post(self, path: str, body: object, kind: type[T]) -> T:
        return await self._call("POST", path, msgspec.json.encode(body), kind)

    async def _call(self, method: Literal["GET", "POST"], path: str, body: bytes | None, kind: type[T]) -> T:
        url = self.base_url + path
        status, data = await self._exchange(method, url, body)
        if status >= 500:
            raise HubUnreachable(url, f"it answered {status}{_reason_in(data)}")
        if status >= 400:
            refusal = _refusal_in(data)
            if refusal is None:
                raise HubNonsense(url, f"it answered {status} without saying why")
            raise HubRefused(url, refusal.error.code, refusal.error.detail)
        if status != 200:
            raise HubNonsense(url, f"it answered {status}")
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HubNonsense(url, _NO_HUB) from error

    async def _exchange(self, method: str, url: str, body: bytes | None) -> tuple[int, bytes]:
        """Status and body, with all that can go wrong on the line as HubUnreachable."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                self._session.request(method, url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                return response.status, await _read(url, response)
        except TimeoutError as error:
            raise HubUnreachable(url, f"no answer within {self._timeout_seconds:g} seconds") from error
        except (aiohttp.ClientPayloadError, aiohttp.ClientResponseError) as error:
            raise HubNonsense(url, _NO_HUB) from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            log.debug("%s: %r", url, error)
            raise HubUnreachable(url, _trouble(url, error)[:MAX_DETAIL_CHARS]) from error


def _trouble(url: str, error: Exception) -> str:
    """What was wrong on the line, in words of this program rather than of its libraries."""
    parts = urlsplit(url)
    where = f"{parts.hostname}, port {parts.port or (443 if parts.scheme == 'https' else 80)}"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(error, aiohttp.ClientConnectorDNSError | UnicodeError) or isinstance(cause, socket.gaierror):
        return f"the name {parts.hostname} is not known"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError) or isinstance(cause, ssl.SSLError):
        return f"no encrypted connection could be made to {where}"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(cause, OSError) and cause.errno and cause.errno != errno.ECONNREFUSED:
            return f"{where} cannot be reached: {os.strerror(cause.errno)}"
        return f"nobody answers at {where}"
    return f"{where} broke off the connection"


def checked_hub_url(url: str) -> str:
    """A hub's base address without the slash at its end.

    Raises:
        UserError: not http(s), no host, or more than an address (a password, a query, a fragment).
    """
    try:
        parts = urlsplit(url.strip())
        usable = (
            len(url) <= MAX_URL_CHARS
            and parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not (parts.username or parts.password or parts.query or parts.fragment)
            and url.strip().isascii()
            and url.strip().isprintable()
            and " " not in url.strip()
        )
    except ValueError:
        usable = False
    if not usable:
        raise UserError(
            f"The hub address {url[:MAX_URL_CHARS]!r} is not one that can be used.",
            "Enter one like https://hub.example.org.",
        )
    return url.strip().rstrip("/")


def _checked_id(project_id: str) -> str:
    if len(project_id) != 64 or not set(project_id) <= set("0123456789abcdef"):
        raise ValueError("a project id is 64 hex digits")
    return project_id


def _opened(raw: msgspec.Raw) -> CatalogueEntry:
    entry = msgspec.json.decode(raw, type=ProjectEntry)
    verified = open_signed(entry.signed_manifest)
    return CatalogueEntry(entry.signed_manifest, verified, entry.peers_now, entry.tokens_verified)


async def _read(url: str, response: aiohttp.ClientResponse) -> bytes:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise HubNonsense(url, "it compressed a reply although it was asked not to")
    limit = MAX_REPLY_BYTES if response.status == 200 else MAX_ERROR_BYTES
    data = bytearray()
    while chunk := await response.content.read(_CHUNK_BYTES):
        data += chunk
        if len(data) > limit:
            raise HubNonsense(url, f"a reply of more than {limit} bytes")
    return bytes(data)


def _refusal_in(data: bytes) -> ErrorReply | None:
    try:
        return msgspec.json.decode(data, type=ErrorReply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _reason_in(data: bytes) -> str:
    refusal = _refusal_in(data)
    return f": {refusal.error.detail}" if refusal is not None else ""
