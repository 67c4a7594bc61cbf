import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.link.endpoint import MAX_ENDPOINT_BYTES, read_endpoint
from app.profile import MAX_SOCKET_PATH_BYTES, Profile, find_profile
from engine.core.paths import HOME_VARIABLE, Paths, default_paths

GOOD: dict[str, Any] = {
    "kind": "unix",
    "address": "/tmp/potluck/engine.sock",
    "pid": 12,
    "started_at": 5.0,
    "token": "t",
    "contract_version": 1,
    "engine_version": "0.1.0",
}


def test_a_good_file_is_read_and_unknown_keys_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "endpoint.json"
    path.write_text(json.dumps({**GOOD, "colour": "teal"}))
    endpoint = read_endpoint(path)
    assert endpoint is not None
    assert (endpoint.address, endpoint.token, endpoint.pid) == ("/tmp/potluck/engine.sock", "t", 12)


@pytest.mark.parametrize(
    "changes", [{"kind": "tcp"}, {"address": ""}, {"token": ""}, {"pid": "x"}, {"address": None}, {"token": 5}]
)
def test_a_wrong_field_means_no_endpoint(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "endpoint.json"
    path.write_text(json.dumps({**GOOD, **changes}))
    assert read_endpoint(path) is None


def test_no_file_a_folder_and_a_huge_file_mean_no_endpoint(tmp_path: Path) -> None:
    assert read_endpoint(tmp_path / "endpoint.json") is None
    assert read_endpoint(tmp_path) is None
    path = tmp_path / "huge.json"
    path.write_text(json.dumps({**GOOD, "filler": "x" * MAX_ENDPOINT_BYTES}))
    assert read_endpoint(path) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=100))
def test_garbage_means_no_endpoint(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "endpoint.json"
    path.write_bytes(data)
    assert read_endpoint(path) is None


def test_window_and_engine_look_in_the_same_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(HOME_VARIABLE)
    assert find_profile(None, os.environ).data_dir == default_paths().data_dir
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "elsewhere"))
    assert find_profile(None, os.environ).data_dir == default_paths().data_dir == tmp_path / "elsewhere"
    assert find_profile(str(tmp_path / "named"), os.environ).data_dir == tmp_path / "named"
    assert Profile(tmp_path).endpoint_file == Paths(tmp_path).endpoint_file


def test_a_long_folder_still_has_a_usable_window_address(tmp_path: Path) -> None:
    deep = Profile(tmp_path / ("x" * 120))
    other = Profile(tmp_path / ("y" * 120))
    assert len(deep.window_address) <= MAX_SOCKET_PATH_BYTES
    assert deep.window_address != other.window_address
    assert Profile(Path("/a/b")).window_address == Profile(Path("/a/b")).window_address
