"""The window's entry point: `potluck-window [--data-dir DIR] [potluck://...]`."""

import argparse
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.bootstrap import Options, build, report_errors
from app.desktop.single_instance import hand_over
from app.errors import ErrorReporter, tell_and_end
from app.language import say
from app.profile import HOME_VARIABLE, Profile, find_profile
from app.timing import VARIABLE as TIMING_VARIABLE
from app.timing import StartTeller

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
WAKE_MILLISECONDS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the window until it is closed; the exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format=LOG_FORMAT, level=logging.DEBUG if options.verbose else logging.WARNING)
    QGuiApplication.setDesktopFileName("potluck")
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Potluck")
    app.setQuitOnLastWindowClosed(False)
    profile = find_profile(options.data_dir, os.environ)
    if not _ensure(profile):
        return 1
    if hand_over(profile.window_address, options.link):
        return 0
    reporter = ErrorReporter()
    reporter.install()
    parts = build(app, profile, Options(start_engine=not options.attach, quit_on_close=options.quit_on_close))
    report_errors(parts, reporter)
    if os.environ.get(TIMING_VARIABLE):
        StartTeller(parts.window, parts.context.link)
    parts.instance.listen()
    wake = _end_on_signals(parts.closing.end_now)
    parts.start(options.link)
    status = app.exec()
    wake.stop()
    parts.end()
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="potluck-window", description="Potluck's window.")
    parser.add_argument("link", nargs="?", default="", help="a potluck:// link to open")
    parser.add_argument("--data-dir", help=f"folder of this profile (default: {HOME_VARIABLE}, or the system's place)")
    parser.add_argument("--attach", action="store_true", help="never start an engine; wait for one")
    parser.add_argument("--quit-on-close", action="store_true", help="end the process when the window is closed")
    parser.add_argument("--verbose", action="store_true", help="more log lines")
    return parser


def _ensure(profile: Profile) -> bool:
    try:
        profile.ensure()
    except OSError as error:
        sentence = say("errors", "Potluck cannot use its folder {path}: {detail}.")
        action = say("errors", "Allow writing there, or start Potluck with another folder.")
        tell_and_end(sentence.format(path=profile.data_dir, detail=error.strerror), action)
        return False
    return True


def _end_on_signals(end: Callable[[], None]) -> QTimer:
    """Ctrl-C and a polite kill end the window; the timer lets Python see them while Qt waits."""
    for name in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(name, lambda *_: QTimer.singleShot(0, end))  # not in the middle of a paint
    timer = QTimer()
    timer.timeout.connect(lambda: None)
    timer.start(WAKE_MILLISECONDS)
    return timer


if __name__ == "__main__":
    sys.exit(main())
