"""What the governor keeps over a restart of the engine."""

from pathlib import Path

import pytest

from engine.governor.model import Override, UserPause
from engine.runtime.guest_memory import FILE_NAME, GuestMemory, load, save
from engine.runtime.tools import reader_of

NOW = 1_760_000_000.0


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    memory = GuestMemory(
        paused=True, paused_until=NOW + 60, override_until=NOW + 5, energy_date="2026-01-02", energy_kilowatt_hours=0.4
    )
    save(tmp_path, memory)
    assert load(tmp_path) == memory
    assert (memory.pause(NOW), memory.override(NOW)) == (UserPause(NOW + 60), Override(NOW + 5))


def test_what_has_passed_is_dropped() -> None:
    memory = GuestMemory(paused=True, paused_until=NOW, override_until=NOW)
    assert (memory.pause(NOW), memory.override(NOW)) == (None, None)
    assert GuestMemory(paused=True).pause(NOW) == UserPause(None)
    assert GuestMemory().pause(NOW) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"paused": 3}',
        b'{"paused_until": "soon"}',
        b'{"override_until": -5}',
        b'{"energy_kilowatt_hours": 1e300}',
        b'{"energy_date": "' + b"x" * 5000 + b'"}',
    ],
)
def test_what_makes_no_sense_is_passed_over(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(data)
    assert load(tmp_path) == GuestMemory()


def test_a_place_that_cannot_be_written_or_read_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert not save(tmp_path / "file", GuestMemory(paused=True))
    assert load(tmp_path / "file") == GuestMemory()


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    assert load(tmp_path) == GuestMemory()


def test_todays_energy_goes_on_where_it_was(tmp_path: Path) -> None:
    save(tmp_path, GuestMemory(energy_date="2001-01-01", energy_kilowatt_hours=0.4))
    reader = reader_of(tmp_path)
    try:
        energy = reader._energy  # type: ignore[attr-defined]
        assert energy.kilowatt_hours(978_350_400.0) == pytest.approx(0.4)  # noon of that day, UTC
        assert energy.kilowatt_hours(NOW) is None
    finally:
        reader.close()
