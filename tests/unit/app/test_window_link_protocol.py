import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.link.protocol import LineReader, LinkBroken, LinkProtocol, OtherVersion, TurnedAway, Welcomed
from engine.contract.codec import (
    MAX_LINE_BYTES,
    EngineMessage,
    Hello,
    Patch,
    Refused,
    Reply,
    SnapshotMessage,
    Welcome,
    decode_face,
    encode,
)
from engine.contract.errors import ErrorBody, ErrorCode
from engine.contract.version import CONTRACT_VERSION

WELCOME = Welcome(contract_version=CONTRACT_VERSION, engine_version="0.1.0", pid=7)


def say(protocol: LinkProtocol, message: EngineMessage) -> object:
    return protocol.on_line(encode(message).rstrip(b"\n"))


def live(rev: int = 4) -> LinkProtocol:
    protocol = LinkProtocol("secret")
    say(protocol, WELCOME)
    say(protocol, SnapshotMessage(rev=rev, state={}))
    return protocol


def test_the_hello_carries_token_and_version_and_asks_for_samples() -> None:
    hello = decode_face(LinkProtocol("secret").hello().rstrip(b"\n"))
    assert hello == Hello(
        token="secret", contract_version=CONTRACT_VERSION, face="window", wants_samples=True, pid=os.getpid()
    )


def test_welcome_snapshot_patches_in_order() -> None:
    protocol = LinkProtocol("secret")
    assert say(protocol, WELCOME) == Welcomed("0.1.0", 7)
    assert not protocol.live
    assert isinstance(say(protocol, SnapshotMessage(rev=4, state={})), SnapshotMessage)
    assert protocol.live
    for rev in (5, 6, 7):
        assert isinstance(say(protocol, Patch(rev=rev, path=("today",), value={})), Patch)


@pytest.mark.parametrize("rev", [4, 6, 3, 0, -1])
def test_a_revision_that_does_not_follow_breaks_the_link(rev: int) -> None:
    with pytest.raises(LinkBroken, match="revision"):
        say(live(rev=4), Patch(rev=rev, path=("today",), value={}))


def test_a_new_snapshot_begins_a_new_count() -> None:
    protocol = live(rev=4)
    say(protocol, SnapshotMessage(rev=90, state={}))
    assert isinstance(say(protocol, Patch(rev=91, path=("today",), value={})), Patch)


@pytest.mark.parametrize(
    "message",
    [Patch(rev=1, path=("today",), value={}), SnapshotMessage(rev=1, state={}), Reply(id=1)],
    ids=lambda message: type(message).__name__,
)
def test_nothing_comes_before_the_welcome(message: EngineMessage) -> None:
    with pytest.raises(LinkBroken, match="before the welcome"):
        say(LinkProtocol("secret"), message)


def test_a_patch_before_the_snapshot_is_out_of_turn() -> None:
    protocol = LinkProtocol("secret")
    say(protocol, WELCOME)
    with pytest.raises(LinkBroken, match="out of turn"):
        say(protocol, Patch(rev=1, path=("today",), value={}))


@pytest.mark.parametrize(("version", "older"), [(CONTRACT_VERSION - 1, True), (CONTRACT_VERSION + 1, False)])
def test_another_contract_version_is_told_apart_by_age(version: int, older: bool) -> None:
    with pytest.raises(OtherVersion) as welcomed:
        say(LinkProtocol("secret"), msgspec.structs.replace(WELCOME, contract_version=version))
    body = ErrorBody(code=ErrorCode.VERSION_MISMATCH, params={"engine": version, "face": CONTRACT_VERSION})
    with pytest.raises(OtherVersion) as refused:
        say(LinkProtocol("secret"), Refused(error=body))
    assert welcomed.value.engine_is_older is refused.value.engine_is_older is older


def test_a_bad_token_is_not_a_matter_of_versions() -> None:
    with pytest.raises(TurnedAway) as refused:
        say(LinkProtocol("secret"), Refused(error=ErrorBody(code=ErrorCode.BAD_TOKEN)))
    assert refused.value.code is ErrorCode.BAD_TOKEN


@given(st.binary(max_size=200))
def test_random_bytes_are_an_event_or_a_broken_link(line: bytes) -> None:
    for protocol in (LinkProtocol("secret"), live()):
        with pytest.raises(LinkBroken):
            protocol.on_line(line)


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b'{"type":"patch"}', b"[" * 5000, b'{"type":"patch","rev":"5","path":["a"],"value":1}', b"\xff\xfe"],
)
def test_near_misses_break_the_link(line: bytes) -> None:
    with pytest.raises(LinkBroken):
        live().on_line(line)


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    reader, out = LineReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        out += reader.feed(stream[:size])
        stream = stream[size:]
    assert out == lines


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    reader = LineReader()
    chunk = b"x" * (MAX_LINE_BYTES // 2)
    assert reader.feed(chunk) == []
    with pytest.raises(LinkBroken):
        for _ in range(3):
            reader.feed(chunk)
