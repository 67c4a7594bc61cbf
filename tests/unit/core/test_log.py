import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import log as log_module
from engine.core.log import KEPT_FILES, MASK, configure, hold_early_lines, mask, register_secret
from engine.core.paths import Paths
from tests.helpers.guards import ExpectLog

SECRET = "kq7Zp2mX9vLw4Rt8"
logger = logging.getLogger("engine.sample.part")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "profile")


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    log_module._secrets.clear()
    log_module._release_early_lines()
    logging.getLogger().setLevel(logging.WARNING)


def text_of(paths: Paths, name: str = "engine") -> str:
    return (paths.log_dir / f"{name}.log").read_text(encoding="utf-8")


def test_lines_go_to_the_file_and_short_ones_to_the_console(paths: Paths, expect_log: ExpectLog) -> None:
    expect_log("engine.sample", match="disk")
    console = io.StringIO()
    with configure(paths, logging.INFO, True, stream=console):
        logger.info("joined %s", "pocket")
        logger.debug("detail")
        logger.warning("disk nearly full")
    first, second = text_of(paths).splitlines()
    assert first.endswith(" sample.part: joined pocket")
    assert " INFO " in first
    assert first.split()[0].endswith("Z")
    assert " WARNING " in second
    lines = console.getvalue().splitlines()
    assert [line.split("Z ", 1)[1] for line in lines] == [
        "sample.part: joined pocket",
        "WARNING sample.part: disk nearly full",
    ]


def test_times_are_utc(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 1, "hello", (), None)
    record.created, record.msecs = 86_400.5, 500.0
    assert log_module._file_formatter().format(record).startswith("1970-01-02T00:00:00.500Z INFO ")


def test_no_console_when_not_wanted(paths: Paths) -> None:
    console = io.StringIO()
    with configure(paths, console=False, stream=console):
        logger.info("hello")
    assert console.getvalue() == ""
    assert "hello" in text_of(paths)


def test_levels_of_topics(paths: Paths) -> None:
    with configure(paths, console=False, levels={"engine.sample": logging.DEBUG}):
        logger.debug("wanted")
        logging.getLogger("engine.other").debug("unwanted")
    assert "unwanted" not in text_of(paths)
    assert "sample.part: wanted" in text_of(paths)
    assert logging.getLogger("engine.sample").level == logging.NOTSET


def test_closing_stops_writing_and_can_be_repeated(paths: Paths) -> None:
    setup = configure(paths, console=False)
    handlers = len(logging.getLogger().handlers)
    setup.close()
    setup.close()
    assert len(logging.getLogger().handlers) == handlers - 1
    logger.info("after")
    assert text_of(paths) == ""


def test_files_are_bounded_in_size_and_number(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_FILE_BYTES", 20_000)
    with configure(paths, console=False):
        for _ in range(20 * (KEPT_FILES + 3)):
            logger.info("x" * 1000)
    files = list(paths.log_dir.iterdir())
    assert len(files) == KEPT_FILES + 1
    assert all(file.stat().st_size <= 20_000 for file in files)


def test_early_lines_are_kept_and_come_first(paths: Paths) -> None:
    hold_early_lines()
    hold_early_lines()
    logger.info("early")
    logger.debug("too fine")
    with configure(paths, console=False):
        logger.info("late")
    assert [line.split(": ")[1] for line in text_of(paths).splitlines()] == ["early", "late"]


def test_early_warnings_are_shown_when_the_process_ends_unconfigured(
    capsys: pytest.CaptureFixture[str], expect_log: ExpectLog
) -> None:
    expect_log("engine.sample", match="lost")
    hold_early_lines()
    logger.warning("lost?")
    logger.info("quiet")
    log_module._give_up_holding()  # registered with atexit
    assert capsys.readouterr().err.endswith("Z WARNING sample.part: lost?\n")
    log_module._give_up_holding()
    assert capsys.readouterr().err == ""


def test_an_unwritable_folder_is_said_and_the_log_goes_to_the_console(tmp_path: Path, expect_log: ExpectLog) -> None:
    expect_log("engine.core.log", match="No log file")
    (tmp_path / "profile").write_text("a file where the folder should be")
    console = io.StringIO()
    with configure(Paths(tmp_path / "profile"), console=False, stream=console) as setup:
        logger.info("hello")
    assert setup.file is None
    assert "No log file" in console.getvalue()
    assert console.getvalue().endswith("sample.part: hello\n")


def test_a_full_disk_is_said_once_and_never_raised(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(text: str) -> int:
        raise OSError(28, "No space left on device")

    with configure(paths, console=False) as setup:
        handler = next(h for h in logging.getLogger().handlers if isinstance(h, log_module._FileHandler))
        monkeypatch.setattr(handler.stream, "write", full)
        logger.info("one")
        logger.info("two")
    assert setup.file is not None
    assert capsys.readouterr().err == f"The log file {setup.file} cannot be written: No space left on device.\n"


@pytest.mark.parametrize(
    "text",
    [
        f"token={SECRET}",
        f'{{"token": "{SECRET}", "face": "cli"}}',
        f"{{'token': b'{SECRET}'}}",
        f"Hello(token='{SECRET}', face='cli')",
        f"Authorization: Bearer {SECRET}",
        f"{{'Authorization': 'Basic {SECRET}'}}",
        f"bearer {SECRET}",
        f"run --token {SECRET}",
        f"turn credential: {SECRET}",
        f"hub_password = {SECRET}",
        f"postgresql://potluck:{SECRET}@db/potluck",
        f"PRIVATE_KEY={SECRET}",
    ],
)
def test_values_named_like_secrets_are_masked(text: str) -> None:
    assert SECRET not in mask(text)
    assert MASK in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "trained 512 tokens: 3 rounds",
        "peer abcdefghijklmnopqrstuvwxyz234567 is up",
        "ws://127.0.0.1:8080/api",
        "basic training",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert mask(text) == text


def test_registered_secrets_are_masked_in_tracebacks_too(paths: Paths, expect_log: ExpectLog) -> None:
    expect_log("engine.sample", logging.ERROR)
    register_secret(SECRET)
    with configure(paths, console=False):
        try:
            raise ValueError(f"cannot use {SECRET}")
        except ValueError:
            logger.exception("failed")
    assert SECRET not in text_of(paths)
    assert f"ValueError: cannot use {MASK}" in text_of(paths)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        register_secret("abc")


@given(st.text(max_size=200))
def test_text_from_elsewhere_stays_in_its_line(text: str) -> None:
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 1, "%s", (text,), None)
    line = log_module._file_formatter().format(record)
    assert len(line.splitlines()) == 1
    assert not set(line) & {"\x1b", "\x00"}
