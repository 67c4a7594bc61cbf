"""Objects that a peer feeds one message after the other. An input is a row of records: lane u8, length u16, bytes."""

import itertools
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from engine.transport.bulk import BulkReceiver
from engine.transport.channel import ControlReceiver
from engine.transport.striping import Striper
from engine.wire import frames as f
from engine.wire.codec import encode
from engine.wire.connection import PeerConnection
from engine.wire.errors import WireError
from engine.wire.limits import LANE_WINDOW_BYTES, MAX_EARLY_BULK_BYTES
from engine.wire.messages import MAX_CONTROL_BYTES, PROTOCOL_VERSION, ChunkRequest, LineProbe, PeerHello
from engine.wire.reassembly import BulkAssembler
from tests.fuzz.decoders import DECODERS, RUN, Decoder

MAX_MESSAGE_BYTES: Final = 8 * 1024
LANES: Final = 4
_RECORD: Final = struct.Struct("!BH")


def row(records: Iterable[tuple[int, bytes]]) -> bytes:
    """The bytes of a row."""
    return b"".join(_RECORD.pack(lane, len(data)) + data for lane, data in records)


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """What is in a row; the last record may be short."""
    at = 0
    while at + _RECORD.size <= len(data):
        lane, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        yield lane, data[at : at + length]
        at += length


def _control(data: bytes) -> object:
    receiver, out = ControlReceiver(MAX_MESSAGE_BYTES), []
    for _, one in records(data):
        frame = f.parse_frame(one)
        if isinstance(frame, f.DataFrame):
            message = receiver.on_frame(frame, len(one))
            assert 0 <= receiver.held_bytes <= MAX_MESSAGE_BYTES
            if message is not None:
                out.append(message)
                receiver.consumed(len(message))
        receiver.grant()
    return out


def _bulk(data: bytes) -> object:
    ticks = itertools.count()
    receiver = BulkReceiver(MAX_MESSAGE_BYTES, None, lambda: float(next(ticks)))
    for lane in range(1, LANES):
        receiver.open_lane(lane)
    out: list[bytes] = []
    for lane, one in records(data):
        frame = f.parse_frame(one)
        if isinstance(frame, f.DataFrame):
            out += receiver.on_frame(lane % LANES, frame, len(one))
        elif isinstance(frame, f.Withdrawal):
            out += receiver.on_withdrawal(frame)
        elif isinstance(frame, f.Probe):
            receiver.report(frame.number, 1)
        elif isinstance(frame, f.LaneSignal):
            receiver.close_lane(frame.lane % LANES)
        assert 0 <= receiver.held_bytes <= len(data)
        receiver.lane_grant(lane % LANES)
        receiver.old_grant(at_message_end=lane >= LANES)
        receiver.consumed(sum(len(message) for message in out))
    return out


def _assembler(data: bytes) -> object:
    """Every whole message is one that was sent whole: its digest says so. What is held is what is not whole."""
    assembler, out = BulkAssembler(MAX_MESSAGE_BYTES), []
    for _, one in records(data):
        frame = f.parse_frame(one)
        if isinstance(frame, f.DataFrame):
            out += assembler.feed(frame)
        elif isinstance(frame, f.Withdrawal):
            out += assembler.withdraw(frame)
        assert 0 <= assembler.early_bytes <= assembler.held_bytes <= len(data)
    assert sum(len(message) for message in out) + assembler.held_bytes <= len(data)
    return out


def _reports(data: bytes) -> object:
    """A sender with frames under way, and what the peer says about them.

    As in a link the first lane is always open, and only there a peer of one lane grants.
    """
    striper = Striper(granted_bytes=1 << 20)
    outgoing = [striper.add(bytes(5000)) for _ in range(3)]
    for lane in range(LANES):
        striper.open_lane(lane, 0.0)
    now, old_granted = 0.0, 0
    for turn in itertools.count():
        if not striper.has_piece(1200) or (piece := striper.next_piece(1200)) is None:
            break
        striper.sent(turn % LANES, piece, len(piece.frame()), now)
    for lane, one in records(data):
        now += 1.0
        frame = f.parse_frame(one)
        if isinstance(frame, f.Report):
            for number, count in frame.frames:
                striper.received(number, count, now)
            striper.granted(frame.granted_bytes)
        elif isinstance(frame, f.Grant) and lane % 2:
            striper.granted_back(lane % LANES, frame.frame_bytes)
        elif isinstance(frame, f.Grant):
            old_granted += frame.frame_bytes
            striper.received_bytes(0, old_granted, now)
        elif isinstance(frame, f.LaneSignal):
            striper.close_lane(frame.lane)
        striper.unstick(0.5, now)
        assert striper.working_bytes >= 0
    return [one.delivered for one in outgoing]


def _conversation(data: bytes) -> object:
    connection, out = PeerConnection(_hello("mine"), 0.0), []
    for now, (lane, one) in enumerate(records(data)):
        out += connection.on_message(lane % 2 == 1, one, now / 100)
    return out


def _hello(software: str) -> PeerHello:
    return PeerHello(protocol_version=PROTOCOL_VERSION, manifest_hash=RUN, software=software)


def _frame_rows() -> tuple[bytes, ...]:
    split = f.FrameSplitter(1024)
    ordered = [frame for number in range(4) for frame in split.split(bytes([number]) * (1000 * number))]
    spread = [(number % LANES, frame) for number, frame in enumerate(ordered)]
    tail = [(0, f.encode_probe(f.Probe(1))), (1, f.encode_signal(f.LaneSignal(f.LaneStep.CLOSING, 2)))]
    gap = [*spread[:2], (0, f.encode_withdrawal(f.Withdrawal(1, 0))), *spread[3:]]
    return row((0, frame) for frame in ordered), row(spread + tail), row(reversed(spread)), row(gap)


def _report_rows() -> tuple[bytes, ...]:
    some = f.encode_report(f.Report(1, 10**6, 1, 1 << 20, ((1, 2), (2, 1))))
    more = f.encode_report(f.Report(2, 2 * 10**6, 2, 1 << 21, ((1, 4), (2, 3), (3, 3))))
    closing = f.encode_signal(f.LaneSignal(f.LaneStep.CLOSING, 2))
    return row([(0, some), (1, f.encode_grant(f.Grant(1, 1000))), (0, more)]), row([(0, some), (0, closing), (0, more)])


def _talks() -> tuple[bytes, ...]:
    hello, probe = encode(_hello("theirs")), encode(LineProbe(payload=b"p" * 50))
    ask = encode(ChunkRequest(state_hash=RUN, index=3))
    return row([(0, hello), (0, ask), (1, probe)]), row([(1, probe), (1, probe), (0, hello), (0, ask)])


assert min(MAX_CONTROL_BYTES, MAX_EARLY_BULK_BYTES, *LANE_WINDOW_BYTES) >= MAX_MESSAGE_BYTES

STREAMS: Final = (
    Decoder("control_receiver", _control, (WireError,), _frame_rows()[:1]),
    Decoder("bulk_receiver", _bulk, (WireError,), _frame_rows()),
    Decoder("bulk_assembler", _assembler, (WireError,), _frame_rows()),
    Decoder("reports_to_a_sender", _reports, (WireError,), _report_rows()),
    Decoder("conversation", _conversation, (WireError,), _talks()),
)
TABLE: Final = (*DECODERS, *STREAMS)
