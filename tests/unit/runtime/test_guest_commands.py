import argparse

import pytest

from engine.contract.reasons import RunState
from engine.contract.snapshot import (
    DeviceSpeed,
    EngineInfo,
    EngineState,
    HubStatus,
    Measurement,
    ProjectCard,
    Status,
)
from engine.runtime.cli import build_parser
from engine.runtime.status_text import measurement_text


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(arguments)


@pytest.mark.parametrize(("text", "seconds"), [("1h", 3600.0), ("30m", 1800.0), ("24h", 86_400.0), ("off", None)])
def test_override_takes_a_time_or_off(text: str, seconds: float | None) -> None:
    assert parsed("override", text).duration == seconds


@pytest.mark.parametrize("text", ["25h", "0m", "never", "-1h"])
def test_override_takes_nothing_else(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("override", text)
    assert "usage" in capsys.readouterr().err


def test_measure_can_be_cancelled() -> None:
    assert parsed("measure").cancel is False
    assert parsed("measure", "--cancel").cancel is True
    assert parsed("why").command == "why"


def state(measurement: Measurement, *cards: ProjectCard) -> EngineState:
    info = EngineInfo(version="0", pid=1, started_at=0.0, peer_id="p", identity_store="file", data_dir="/")
    return EngineState(
        engine=info,
        status=Status(state=RunState.IDLE),
        hub=HubStatus(url="", connected=False),
        measurement=measurement,
        projects=cards,
    )


def test_a_measurement_in_words() -> None:
    card = ProjectCard(
        project_id="1",
        name="tiny",
        title="Tiny",
        summary="",
        publisher="",
        licence="",
        data_summary="",
        parameter_count=1,
        download_bytes=1,
        memory_needed_bytes=1,
        tokens_per_hour=1_234_567.8,
    )
    speeds = (
        DeviceSpeed(device="cpu", name="A Processor", tokens_per_second=12_345.6, memory_bytes=400_000_000),
        DeviceSpeed(device="cuda:0", name="A Card", detail="out of memory"),
    )
    measured = Measurement(
        state="done", devices=speeds, memory_free_bytes=8_000_000_000, upload_bytes_per_second=2_500_000.0
    )
    assert measurement_text(state(measured, card)).splitlines() == [
        "Measurement done",
        "cpu        A Processor  12,346 tokens/s, 400 MB",
        "cuda:0     A Card  out of memory",
        "Memory     8.0 GB free",
        "Line       at least 2.5 MB/s up, not yet down, as seen in training",
        "Tiny  about 1,234,568 tokens an hour while you are away",
    ]


def test_what_failed_says_why() -> None:
    assert measurement_text(state(Measurement())) == "This computer was not measured yet."
    assert measurement_text(state(Measurement(state="failed", detail="too hot"))) == "Measurement failed: too hot"
