"""The specification names what the code has, no more and no less."""

import re
from pathlib import Path

import pytest

from engine.contract import codec
from engine.contract.commands import COMMANDS, MAX_PAUSE_SECONDS
from engine.contract.errors import ErrorCode
from engine.contract.links import MAX_LINK_CHARS
from engine.contract.version import CONTRACT_VERSION
from engine.control import dispatch, link, server
from engine.control.endpoint import Endpoint

SPEC = (Path(__file__).parents[3] / "docs" / "specs" / "control.md").read_text("utf-8")


def rows_of(heading: str) -> dict[str, str]:
    """First and second column of the table under a heading."""
    section = SPEC.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([a-z_.]+)` \|([^|]*)\|", section, re.MULTILINE)
    assert len(found) == len(dict(found))
    return {name: text.strip() for name, text in found}


def test_every_command_is_in_the_table():
    assert set(rows_of("Commands")) == set(COMMANDS)


@pytest.mark.parametrize("method", COMMANDS)
def test_every_parameter_is_in_the_table(method):
    named = re.findall(r"`([a-z_]+)`", rows_of("Commands")[method].split(":")[0])
    assert named == list(COMMANDS[method].__struct_fields__)


def test_every_error_is_in_the_table():
    assert set(rows_of("Error codes")) == {code.value for code in ErrorCode}


def test_every_field_of_the_endpoint_is_in_the_table():
    assert list(rows_of("Where the engine is")) == list(Endpoint.__struct_fields__)


def test_every_message_is_in_the_table():
    lines = SPEC.split("\n## Lines\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| (?:face|engine) \| `([a-z]+)` \| (.*) \|$", lines, re.MULTILINE))
    messages = (
        codec.Hello,
        codec.Welcome,
        codec.Refused,
        codec.SnapshotMessage,
        codec.Patch,
        codec.Request,
        codec.Reply,
    )
    assert set(rows) == {message.__struct_config__.tag for message in messages}
    for message in messages:
        assert set(message.__struct_fields__) <= set(re.findall(r"`([a-z_]+)`", rows[message.__struct_config__.tag]))


def test_the_numbers_are_those_of_the_code():
    for sentence in (
        f"Contract version {CONTRACT_VERSION}.",
        f"within {link.HELLO_SECONDS:.0f} s",
        f"At most {server.MAX_FACES} links",
        f"at most {link.MAX_REQUESTS_IN_FLIGHT} requests",
        f"more than {dispatch.REQUEST_SECONDS:.0f} s",
        f"at most {MAX_PAUSE_SECONDS},",
        f"at most {dispatch.MAX_TEXT_CHARS} characters",
        f"at most {codec.MAX_LINE_BYTES // 2**20} MiB",
        f"more than {link.MAX_BUFFERED_BYTES // 2**20} MiB",
        f"at most {MAX_LINK_CHARS} ASCII characters",
    ):
        assert sentence in " ".join(SPEC.split()), sentence
