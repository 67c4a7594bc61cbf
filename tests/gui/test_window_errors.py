"""Faults of ours, and a folder that cannot be used: a log line in full, a sentence to the user, no traceback."""

import logging
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from app.__main__ import _ensure
from app.errors import ErrorReporter
from app.profile import Profile
from tests.helpers.guards import ExpectLog

pytestmark = pytest.mark.gui


def raised() -> BaseException:
    try:
        raise ZeroDivisionError("secret detail")
    except ZeroDivisionError as error:
        return error


def test_a_fault_is_logged_each_time_and_told_once(qtbot: QtBot, expect_log: ExpectLog) -> None:
    expect_log("app.errors", logging.CRITICAL, match="uncaught")
    reporter = ErrorReporter()
    error = raised()
    thread = threading.Thread(target=reporter.on_exception, args=(type(error), error, error.__traceback__))
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: reporter.dialog is not None and reporter.dialog.isVisible())
    dialog = reporter.dialog
    assert dialog is not None
    assert "secret detail" not in dialog.text() + dialog.informativeText()
    assert "Training is not affected" in dialog.informativeText()
    reporter.on_exception(type(error), error, error.__traceback__)
    QApplication.processEvents()
    assert reporter.dialog is dialog
    dialog.close()


def test_ctrl_c_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "__excepthook__", lambda kind, *_: seen.append(kind))
    reporter = ErrorReporter()
    reporter.on_exception(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert seen == [KeyboardInterrupt]
    assert reporter.dialog is None


def test_a_folder_that_cannot_be_made_is_named_with_an_action(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    texts: list[str] = []

    def read_and_close() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, QMessageBox)
        texts.extend((dialog.text(), dialog.informativeText()))
        dialog.accept()

    QTimer.singleShot(0, read_and_close)
    assert not _ensure(Profile(tmp_path / "file" / "potluck"))
    assert str(tmp_path / "file") in texts[0]
    assert texts[1].startswith("Allow writing there")
