import os
import stat

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.control.endpoint import (
    MAX_ENDPOINT_BYTES,
    Endpoint,
    EngineLock,
    find_engine,
    read_endpoint,
    remove_endpoint,
    write_endpoint,
)
from engine.core.errors import UserError
from engine.core.paths import Paths

ENDPOINT = Endpoint(
    kind="unix",
    address="/nowhere/engine.sock",
    pid=4242,
    started_at=1.5,
    token="t" * 43,
    contract_version=1,
    engine_version="0.1.0",
)


@pytest.fixture
def paths(tmp_path) -> Paths:
    paths = Paths(tmp_path / "profile")
    paths.ensure()
    return paths


def test_the_file_is_private_and_reads_back(paths):
    write_endpoint(paths, ENDPOINT)
    assert read_endpoint(paths) == ENDPOINT
    if os.name == "posix":
        assert stat.S_IMODE(paths.endpoint_file.stat().st_mode) == 0o600


def test_no_file_is_no_engine(paths):
    assert read_endpoint(paths) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 5000,
        b" " * (MAX_ENDPOINT_BYTES + 1),
        msgspec.json.encode({**msgspec.to_builtins(ENDPOINT), "kind": "tcp"}),
        msgspec.json.encode({**msgspec.to_builtins(ENDPOINT), "pid": 0}),
        msgspec.json.encode({**msgspec.to_builtins(ENDPOINT), "token": "short"}),
        msgspec.json.encode({**msgspec.to_builtins(ENDPOINT), "address": "x" * 401}),
        msgspec.json.encode({"kind": "unix"}),
    ],
)
def test_a_garbled_file_is_no_engine(paths, data):
    paths.endpoint_file.write_bytes(data)
    assert read_endpoint(paths) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_any_bytes_are_an_endpoint_or_none(paths, data):
    paths.endpoint_file.write_bytes(data)
    assert read_endpoint(paths) is None


def test_a_folder_in_place_of_the_file(paths):
    paths.endpoint_file.mkdir()
    assert read_endpoint(paths) is None
    with pytest.raises(UserError, match="cannot write to its folder"):
        write_endpoint(paths, ENDPOINT)


def test_only_ones_own_file_is_removed(paths):
    write_endpoint(paths, ENDPOINT)
    remove_endpoint(paths, "another token, of the engine before")
    assert read_endpoint(paths) == ENDPOINT
    remove_endpoint(paths, ENDPOINT.token)
    remove_endpoint(paths, ENDPOINT.token)
    assert not paths.endpoint_file.exists()


async def test_the_file_of_a_dead_engine_is_no_engine(paths):
    write_endpoint(paths, msgspec.structs.replace(ENDPOINT, address=str(paths.socket_file)))
    assert await find_engine(paths) is None
    write_endpoint(paths, msgspec.structs.replace(ENDPOINT, kind="pipe" if os.name == "posix" else "unix"))
    assert await find_engine(paths) is None


def test_one_engine_a_profile(paths):
    write_endpoint(paths, ENDPOINT)
    with EngineLock(paths), pytest.raises(UserError, match=r"already running \(process 4242\)"):
        EngineLock(paths).acquire()
    with EngineLock(paths):
        pass


def test_another_profile_has_another_lock(paths, tmp_path):
    other = Paths(tmp_path / "other")
    other.ensure()
    with EngineLock(paths), EngineLock(other):
        pass


def test_the_lock_needs_a_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError) as refused:
        EngineLock(Paths(tmp_path / "file" / "profile")).acquire()
    assert str(tmp_path) in refused.value.sentence
    assert refused.value.action
