"""Pictures of every page, light and dark: `python -m tests.helpers.screenshots OUTDIR [SCALE] [STATE] [WIDTHxHEIGHT]`.

STATE is a name of `toy_states.ALL_STATES`, or the folder of a profile whose engine runs.
Runs on any Qt platform; set QT_QPA_PLATFORM=offscreen where there is no display.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QDeadlineTimer, QEventLoop, QSize, Qt
from PySide6.QtWidgets import QApplication

from app.bootstrap import Options, Parts, build
from app.profile import Profile
from tests.helpers import toy_states
from tests.helpers.toy_engine import ToyEngine

SCHEMES = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
PATIENCE_MILLISECONDS = 20_000


def wait_until(app: QApplication, condition: Callable[[], bool]) -> None:
    """Let the event loop run until `condition` holds.

    Raises:
        TimeoutError: it never did.
    """
    deadline = QDeadlineTimer(PATIENCE_MILLISECONDS)
    while not condition():
        if deadline.hasExpired():
            raise TimeoutError("the window did not get where it should")
        app.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 50)


def shoot(parts: Parts, path: Path) -> None:
    """Write a picture of the window as it is."""
    if not parts.window.grab().save(str(path)):
        raise OSError(f"cannot write {path}")


def shoot_all(
    app: QApplication, profile: Profile, folder: Path, window_size: QSize, *, has_history: bool = False
) -> None:
    """Every page of the window of a running engine, light and dark. With `has_history`, the past is waited for."""
    parts = build(app, profile, Options(start_engine=False, tray=False))
    parts.window.resize(window_size)
    parts.start()
    wait_until(app, lambda: parts.context.link.connected and parts.context.mirror.state is not None)
    state = parts.context.mirror.state
    if state is not None and state.curve:
        wait_until(app, lambda: parts.window.home.chart.plot is not None)
    for scheme, value in SCHEMES.items():
        parts.context.theme.force(value)
        for name in parts.window.pages:
            parts.window.show_page(name)
            if name == "machine" and has_history:
                wait_until(app, lambda: bool(parts.window.machine.history.history.view.warmths))
            if name == "settings":
                wait_until(app, parts.window.settings.outlook.isVisible)
            for _ in range(5):
                app.processEvents()
            shoot(parts, folder / f"{name}-{scheme}.png")
    parts.end()


def main(arguments: list[str]) -> int:
    """Render all pages."""
    folder = Path(arguments[0])
    os.environ["QT_SCALE_FACTOR"] = arguments[1] if len(arguments) > 1 else "1"
    shown = arguments[2] if len(arguments) > 2 else "training"
    width, height = map(int, arguments[3].split("x")) if len(arguments) > 3 else (1120, 760)
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication(sys.argv[:1])
    if shown not in toy_states.ALL_STATES:
        shoot_all(app, Profile(Path(shown)), folder, QSize(width, height))
        return 0
    toy_states.NOW = time.time()
    with tempfile.TemporaryDirectory() as home:
        engine = ToyEngine(Path(home), toy_states.ALL_STATES[shown]())
        engine.results = {
            "periods.get": toy_states.periods(),
            "readings.get": toy_states.readings(),
            "settings.preview": toy_states.preview(),
        }
        engine.start()
        shoot_all(app, Profile(Path(home)), folder, QSize(width, height), has_history=True)
        engine.stop()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("TZ", "UTC")
    sys.exit(main(sys.argv[1:]))
