"""The benchmark runs and says what it promises."""

import json

import pytest

from tests.benchmarks.codecs import main


def test_it_ends_with_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--turns", "1", "--matrices", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bench"] == "codecs"
    assert [result["figures"][name]["bytes_per_value"] for name in ("float32", "float16", "int8", "powersgd")] == [
        4.0,
        2.0,
        1.001,
        0.03125,
    ]
    assert len(result["goals"]) == 8
    assert all(goal["got"] > 0.0 for goal in result["goals"].values())
