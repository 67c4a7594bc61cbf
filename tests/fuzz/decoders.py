"""Every decoder of bytes from outside, each with the one kind of refusal that it may raise, and valid samples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec
import numpy as np

from engine.checkpoints.errors import BlobError
from engine.checkpoints.format import from_blob, to_blob
from engine.checkpoints.state import SharedState
from engine.contract.codec import BadLine, EngineMessage, Hello, LineTooLong, Request, decode_engine, decode_face
from engine.contract.commands import COMMANDS
from engine.contract.errors import ControlError
from engine.contract.links import JoinLink, build_link, parse_link
from engine.control.dispatch import parse_command
from engine.core.errors import UserError
from engine.hub import protocol
from engine.hub.client import HubClient, checked_hub_url
from engine.hub.errors import HubError
from engine.kit.errors import KitFault
from engine.kit.lock import KitLock, parse_lock
from engine.ledger.receipts import SignedReceipt
from engine.ledger.signing import ReceiptError, open_receipt, sign_receipt
from engine.manifest.errors import ManifestError
from engine.manifest.parse import parse
from engine.manifest.schema import SignedManifest
from engine.manifest.verify import open_signed
from engine.signaling.envelope import EnvelopeChecker, make_answer, make_call, make_offer, seal_description
from engine.signaling.messages import (
    FromHub,
    SignalingError,
    ToHub,
    decode_envelope,
    decode_from_hub,
    decode_to_hub,
    encode_room,
)
from engine.signaling.sdp import parse_sdp, reachable, render
from engine.training.pipe import FrameReader, PipeError, decode_from_worker, decode_to_worker, encode_frame
from engine.training.protocol import FromWorker, ToWorker
from engine.wire import frames as f
from engine.wire.codec import decode, encode, lane_of
from engine.wire.errors import WireError
from engine.wire.messages import PeerMessage
from tests.fuzz.samples import values_of
from tests.helpers.hub_samples import manifest, receipt, sealed
from tests.helpers.introductions import identities, sdp_text
from tests.helpers.kit_samples import kit_of

MAX_INPUT_BYTES: Final = 16 * 1024
ME, OTHER = identities(2)
RUN: Final = b"r" * 32
NOW: Final = 1_700_000_000.0
PARAMETERS: Final = 16


@dataclass(frozen=True, slots=True)
class Decoder:
    """One border. `decode` gives anything or raises one of `refusals`; `samples` are taken, `refused` are not."""

    name: str
    decode: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    samples: tuple[bytes, ...]
    refused: tuple[bytes, ...] = ()


def takes(decoder: Decoder, data: bytes) -> bool:
    """Whether it takes `data`. Whatever it raises besides its refusals goes through."""
    try:
        decoder.decode(data)
    except decoder.refusals:
        return False
    return True


# Between peers.


def _frames() -> tuple[bytes, ...]:
    split = f.FrameSplitter(1024)
    return (
        *split.split(b"m" * 2500),
        f.encode_grant(f.Grant(1, 4096)),
        f.encode_keep_alive(f.KeepAlive(7, False)),
        f.encode_probe(f.Probe(7)),
        f.encode_report(f.Report(7, 10**9, 3, 4096, ((0, 1), (3, 2)))),
        f.encode_signal(f.LaneSignal(f.LaneStep.OFFER, 3, sdp_text())),
        f.encode_signal(f.LaneSignal(f.LaneStep.CLOSING, 3)),
        f.encode_withdrawal(f.Withdrawal(2, 1500)),
    )


def _peer_messages(*, bulk: bool) -> tuple[bytes, ...]:
    return tuple(encode(message) for message in values_of(PeerMessage) if lane_of(message) == bulk)


def _envelopes() -> tuple[bytes, ...]:
    nonce = b"n" * 16
    offer = make_offer(OTHER, ME.peer_id, RUN, nonce, sdp_text(), NOW)
    call = make_call(OTHER, ME.peer_id, RUN, nonce, NOW)
    answer = make_answer(OTHER, make_offer(ME, OTHER.peer_id, RUN, nonce, sdp_text(), NOW), RUN, nonce, _ANSWER, NOW)
    return tuple(seal_description(one, OTHER)[0] for one in (offer, answer, call))


_ANSWER: Final = sdp_text(setup="active", candidates=("192.0.2.7 40000", "2001:db8::7 40001"))


def _open_envelope(data: bytes) -> object:
    return EnvelopeChecker(ME.peer_id, RUN).open(OTHER.peer_id, data, NOW)


def _sdp(data: bytes) -> object:
    transport = parse_sdp(data.decode("latin-1"))
    again = parse_sdp(render(transport, transport.candidates))
    assert again == transport
    return [reachable(transport.candidates, loopback_only=only) for only in (False, True)]


# Between a peer and its hub.


class CannedHub(HubClient):
    """A client whose hub answers with these bytes; everything behind the socket is the real one's."""

    def __init__(self, session: aiohttp.ClientSession, status: int, reply: bytes) -> None:
        super().__init__("http://hub.example", ME, session)
        self._canned = status, reply

    async def _exchange(self, method: str, url: str, body: bytes | None) -> tuple[int, bytes]:
        return self._canned


_PROJECT: Final = "0" * 64
_STATUSES: Final = (200, 404, 503, 302)


def _hub_reply(data: bytes) -> object:
    """The first two bytes say which call it answers, and with which status."""
    head, reply = data[:2].ljust(2, b"\0"), data[2:]
    # It is never used, as the replies are at hand.
    hub = CannedHub(None, _STATUSES[head[1] % len(_STATUSES)], reply)  # type: ignore[arg-type]
    calls: tuple[Callable[[], Any], ...] = (
        hub.hub,
        hub.projects,
        lambda: hub.leaderboard(_PROJECT),
        lambda: hub.receipts(_PROJECT),
        lambda: hub.publish(SignedManifest(payload=b"", public_key=bytes(32), signature=bytes(64))),
        lambda: hub.set_name("Ada", NOW),
        lambda: hub.post_receipts([_RECEIPT]),
    )
    return at_once(calls[head[0] % len(calls)]())


def at_once(work: Any) -> object:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


_RECEIPT: Final = sign_receipt(receipt(ME, OTHER, (ME, OTHER)), ME)


def _hub_replies() -> tuple[bytes, ...]:
    kinds = (protocol.HubInfo, protocol.ProjectPage, protocol.Board, protocol.ReceiptPage, protocol.Published)
    kinds += (protocol.NameStored, protocol.ReceiptResults)  # type: ignore[assignment]
    good = [bytes([n, 0]) + msgspec.json.encode(next(values_of(kind))) for n, kind in enumerate(kinds)]
    page = protocol.ProjectPage(
        projects=(protocol.ProjectEntry(signed_manifest=_SEALED, peers_now=1, tokens_verified=2),)
    )
    return (*good, b"\x01\x00" + msgspec.json.encode(page))


def _hub_refusals() -> tuple[bytes, ...]:
    return (b"\x00\x01" + msgspec.json.encode(next(values_of(protocol.ErrorReply))),)


_SEALED: Final = sealed(ME, name="tides")
_POSTS: Final = (protocol.ReceiptsPost, protocol.SignedName, SignedManifest)


def _hub_post(data: bytes) -> object:
    return msgspec.json.decode(data[1:], type=_POSTS[(data[0] if data else 0) % len(_POSTS)])


def _receipt(data: bytes) -> object:
    return open_receipt(msgspec.msgpack.decode(data, type=SignedReceipt))


_MSGSPEC: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the hub's handlers turn into a refusal (`engine.hub.api`)."""

# On this computer, and from files.


def _command(data: bytes) -> object:
    message = decode_face(data)
    return parse_command(message) if isinstance(message, Request) else message


def _requests() -> tuple[bytes, ...]:
    commands = [(method, next(values_of(kind))) for method, kind in COMMANDS.items()]
    requests = [Request(id=1, method=method, params=msgspec.to_builtins(command)) for method, command in commands]
    return tuple(msgspec.json.encode(message) for message in (*requests, next(values_of(Hello))))


def _blob() -> bytes:
    vector = np.arange(PARAMETERS, dtype=np.float32)
    return to_blob(SharedState(3, vector, vector, vector, RUN, {"beta1_product": 0.5}))


def _pipe(data: bytes) -> object:
    reader, out = FrameReader(), []
    for at in range(0, len(data), 1000):
        out += reader.feed(data[at : at + 1000])
    assert sum(len(body) for body in out) + reader.pending_bytes <= len(data)
    return out


def _link(data: bytes) -> object:
    link = parse_link(data.decode("latin-1"))
    assert parse_link(build_link(link)) == link
    return link


def _hub_address(data: bytes) -> object:
    return checked_hub_url(data.decode("latin-1"))


def _json_lines(kind: Any) -> tuple[bytes, ...]:
    return tuple(msgspec.json.encode(message) for message in values_of(kind))


def _rooms(kind: Any) -> tuple[bytes, ...]:
    return tuple(encode_room(message).encode() for message in values_of(kind))


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _between_peers() -> tuple[Decoder, ...]:
    sdps = (sdp_text().encode(), _ANSWER.encode())
    return (
        Decoder("wire_frame", f.parse_frame, (WireError,), _frames()),
        Decoder("control_message", lambda data: decode(data, False), (WireError,), _peer_messages(bulk=False)),
        Decoder("bulk_message", lambda data: decode(data, True), (WireError,), _peer_messages(bulk=True)),
        Decoder("envelope", decode_envelope, (SignalingError,), _envelopes()),
        Decoder("believed_envelope", _open_envelope, (SignalingError,), _envelopes()),
        Decoder("sdp", _sdp, (SignalingError,), sdps),
        Decoder("checkpoint", lambda data: from_blob(data, RUN, PARAMETERS), (BlobError,), (_blob(),)),
    )


def _with_the_hub() -> tuple[Decoder, ...]:
    posts = [bytes([n]) + msgspec.json.encode(next(values_of(kind))) for n, kind in enumerate(_POSTS)]
    return (
        Decoder("room_from_hub", decode_from_hub, (SignalingError,), _rooms(FromHub)),
        Decoder("room_from_hub_text", lambda data: decode_from_hub(_text_of(data)), (SignalingError,), _rooms(FromHub)),
        Decoder("room_to_hub", decode_to_hub, (SignalingError,), _rooms(ToHub)),
        Decoder("hub_reply", _hub_reply, (HubError,), _hub_replies(), _hub_refusals()),
        Decoder("hub_post", _hub_post, _MSGSPEC, tuple(posts)),
        Decoder("receipt", _receipt, (ReceiptError, *_MSGSPEC), (msgspec.msgpack.encode(_RECEIPT),)),
        Decoder("manifest", parse, (ManifestError,), (msgspec.json.encode(manifest()),)),
        Decoder("signed_manifest", _signed_manifest, (ManifestError, *_MSGSPEC), (msgspec.json.encode(_SEALED),)),
    )


def _signed_manifest(data: bytes) -> object:
    return open_signed(msgspec.json.decode(data, type=SignedManifest))


def _on_this_computer() -> tuple[Decoder, ...]:
    link = build_link(JoinLink("https://hub.example:8470/a", _PROJECT)).encode()
    down, up = (tuple(msgspec.msgpack.encode(one) for one in values_of(kind)) for kind in (ToWorker, FromWorker))
    pipe = b"".join(encode_frame(message) for kind in (ToWorker, FromWorker) for message in values_of(kind))
    lines = (LineTooLong, BadLine)
    return (
        Decoder("control_command", _command, (*lines, ControlError), _requests()),
        Decoder("control_engine", decode_engine, lines, _json_lines(EngineMessage)),
        Decoder("worker_pipe", _pipe, (PipeError,), (pipe,)),
        Decoder("to_worker", decode_to_worker, (PipeError,), down),
        Decoder("from_worker", decode_from_worker, (PipeError,), up),
        Decoder("kit_lock", _lock, (KitFault,), (_kit_lock(),)),
        Decoder("join_link", _link, (ControlError,), (link,)),
        Decoder("hub_address", _hub_address, (UserError,), (b"https://hub.example:8470/a", b"http://[::1]:8470")),
    )


def _lock(data: bytes) -> object:
    """What becomes file names and addresses is on one line."""
    lock = parse_lock(data)
    for name, kit in lock.kits.items():
        words = [name, kit.system, kit.machine, kit.python, kit.computes_on, kit.minimum_driver]
        words += [word for file in kit.files for word in (file.sha256, file.filename)]
        assert all(word.isascii() and word.isprintable() for word in words), words
    return lock


def _kit_lock() -> bytes:
    return msgspec.json.encode(
        KitLock(1, {"linux-cpu": kit_of({"torch-2.6.0-cp311-cp311-linux_x86_64.whl": b"wheel"})})
    )


DECODERS: Final = (*_between_peers(), *_with_the_hub(), *_on_this_computer())
