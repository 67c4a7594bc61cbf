"""The command line: `potluck COMMAND`, with demo, hub, run, join, leave, pause, resume, override, why, measure, status,
projects, set, stop and export.

Heavy parts are imported by the command that needs them, so that `potluck status` answers at once.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.contract.commands import MAX_OVERRIDE_SECONDS
from engine.contract.version import PRODUCT_VERSION
from engine.core.errors import UserError
from engine.core.paths import Paths, default_paths

EXIT_USER_ERROR = 1
EXIT_INTERRUPTED = 130
_STUN = re.compile(r"stun:(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Errors of the user's kind end with one sentence and exit status 1."""
    options = build_parser().parse_args(arguments)
    try:
        return int(_run(options))
    except UserError as error:
        sys.stderr.write(f"potluck: {error.sentence}\n")
        if error.action:
            sys.stderr.write(f"         {error.action}\n")
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = argparse.ArgumentParser(
        prog="potluck", description="Train deep-learning models together on the computers people already own."
    )
    parser.add_argument("--version", action="version", version=f"potluck {PRODUCT_VERSION}")
    parser.add_argument("--data-dir", type=Path, help="folder of this profile (default: the system's place for it)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_servers(commands)
    _add_requests(commands)
    _add_files(commands)
    return parser


def _add_servers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    demo = commands.add_parser("demo", help="a hub and three volunteers on this computer, with the window")
    demo.add_argument("--minutes", type=_positive, help="end by itself after this many minutes of training")
    demo.add_argument("--headless", action="store_true", help="no window; show progress here")
    demo.add_argument("--volunteers", type=_volunteers, default=2, help="beside your own, 1 to 8 (default 2)")
    demo.add_argument("--keep", type=Path, metavar="DIR", help="keep all state in this folder (default: temporary)")
    hub = commands.add_parser("hub", help="serve a hub: catalogue, introductions, leaderboard")
    hub.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    hub.add_argument("--port", type=_port, default=8470, help="0 takes a free one (default 8470)")
    hub.add_argument("--database", help="SQLAlchemy address or file (default: hub.db in the profile's folder)")
    hub.add_argument("--publish", action="append", default=[], metavar="FILE", help="publish this manifest at start")
    hub.add_argument("--bundled", action="store_true", help="publish the bundled project Pocket Python")
    hub.add_argument(
        "--stun", action="append", type=_stun, default=[], metavar="URL", help="told to peers: stun:host:port"
    )
    hub.add_argument("--turn", action="append", default=[], metavar="URL", help="as in turn:host:3478?transport=udp")
    hub.add_argument("--turn-secret", type=Path, metavar="FILE", help="holds the secret shared with that TURN server")
    hub.add_argument("--kits", type=Path, metavar="FOLDER", help="serve the files of training kits from this folder")
    hub.add_argument("--open", action="store_true", help="let anybody publish (default: only this hub's own key)")
    hub.add_argument("--end-with-parent", action="store_true", help="end when standard input closes")
    run = commands.add_parser("run", help="run the engine: the background service, or a headless volunteer")
    run.add_argument("--hub", metavar="URL", help="hub to use from now on")
    run.add_argument("--join", metavar="PROJECT", help="join this project (name or id) at once")
    run.add_argument("--name", help="name on the leaderboard (default: hidden)")
    run.add_argument("--no-keyring", action="store_true", help="keep the key in a file of the profile's folder")
    run.add_argument("--loopback", action="store_true", help="only meet peers on this computer")
    run.add_argument("--stun", action="append", type=_stun, default=[], metavar="URL", help="as in stun:host:port")
    run.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    run.add_argument("--unattended", action="store_true", help="do not pause while somebody uses this computer")
    run.add_argument("--detached", action="store_true", help="started by the window: log to the file only")
    run.add_argument("--end-with-parent", action="store_true", help="end when standard input closes")
    run.add_argument("--verbose", action="store_true", help="more log lines")


def _add_requests(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    join = commands.add_parser("join", help="take part in a project, by name, id or potluck:// link")
    join.add_argument("project")
    leave = commands.add_parser("leave", help="stop taking part, after the round in progress")
    leave.add_argument("--now", action="store_true", help="do not wait for the round")
    pause = commands.add_parser("pause", help="stop computing")
    pause.add_argument("duration", nargs="?", type=_duration, help="such as 30m, 1h, 90s (default: until resumed)")
    commands.add_parser("resume", help="go on computing")
    override = commands.add_parser("override", help="work now in spite of the limits, except those that protect")
    override.add_argument("duration", type=_override, help="such as 30m or 1h, at most a day; or: off")
    commands.add_parser("why", help="what the engine does and why, now and in the last day")
    measure = commands.add_parser("measure", help="measure how fast this computer trains")
    measure.add_argument("--cancel", action="store_true", help="end the measurement that runs")
    kit = commands.add_parser("kit", help="the training kit: the build of torch for this computer")
    kit.add_argument("action", nargs="?", choices=("show", "get", "pause"), default="show")
    status = commands.add_parser("status", help="what the engine does and why")
    status.add_argument("--json", action="store_true", help="the whole state tree")
    commands.add_parser("projects", help="the hub's catalogue")
    stop = commands.add_parser("stop", help="end the engine, after the round in progress")
    stop.set_defaults(command="stop")
    settings = commands.add_parser("set", help="change a setting, as in: potluck set cpu_share_percent 25")
    settings.add_argument("name")
    settings.add_argument("value")


def _add_files(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    forget = commands.add_parser(
        "forget", help="leave, end the engine, and remove everything that Potluck keeps of you"
    )
    forget.add_argument("--yes", action="store_true", help="do not ask")
    export = commands.add_parser("export", help="write the model as a folder that transformers loads")
    export.add_argument("folder", type=Path)
    export.add_argument("--project", help="name or id (default: the joined one)")


def _run(options: argparse.Namespace) -> int:
    paths = Paths(options.data_dir.expanduser().absolute()) if options.data_dir else default_paths()
    command = options.command
    if command == "demo":
        from engine.runtime.demo import run_demo

        return run_demo(options)
    if command == "hub":
        from engine.runtime.hub_command import run_hub

        return run_hub(paths, options)
    if command == "run":
        from engine.runtime.run_command import run_engine

        return run_engine(paths, options)
    if command == "forget":
        from engine.runtime.forget_command import run_forget

        return run_forget(paths, options)
    if command == "export":
        from engine.runtime.export_command import run_export

        return run_export(paths, options)
    from engine.runtime.requests import run_request

    return run_request(paths, options)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 24 * 60:
        raise argparse.ArgumentTypeError("must be a number above 0 and at most 1440")
    return value


def _port(text: str) -> int:
    return _whole_number(text, 0, 65535)


def _volunteers(text: str) -> int:
    return _whole_number(text, 1, 8)


def _whole_number(text: str, least: int, most: int) -> int:
    usable = text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most
    if not usable:
        raise argparse.ArgumentTypeError(f"must be a number from {least} to {most}")
    return int(text)


def _stun(text: str) -> str:
    found = _STUN.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 3478) <= 65535:
        raise argparse.ArgumentTypeError("must look like stun:host:port, as in stun:stun.example.org:3478")
    return text


def _override(text: str) -> float | None:
    """As `_duration`, at most a day; None for "off".

    Raises:
        argparse.ArgumentTypeError: it is none of these.
    """
    if text == "off":
        return None
    seconds = _duration(text)
    if seconds > MAX_OVERRIDE_SECONDS:
        raise argparse.ArgumentTypeError("must be at most a day")
    return seconds


def _duration(text: str) -> float:
    """Seconds of "30m", "1h", "90s" or "45" (minutes).

    Raises:
        argparse.ArgumentTypeError: it is none of these.
    """
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 60.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 7 * 24 * 3600:
        raise argparse.ArgumentTypeError("must look like 30m, 1h or 90s, and be at most a week")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
