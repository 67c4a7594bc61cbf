"""The import rules in .importlinter break when they should, and name only modules that exist."""

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / ".importlinter"

VIOLATIONS = {
    "window-knows-only-the-contract": ("app.window", "import engine.store"),
    "no-torch-in-the-window": ("app.tray", "import asyncio"),
    "engine-has-no-window": ("engine.control", "from PySide6 import QtCore"),
    "contract-stands-alone": ("engine.contract.sample", "from engine.core import clock"),
    "core-stands-alone": ("engine.core.sample", "from engine.contract import sample"),
    "pure": ("engine.wire.sample", "def f():\n    import time"),
    "torch": ("engine.hub.sample", "import torch.nn"),
    "light-engine": ("engine.swarm.sample", "from engine.training import models"),
    "webrtc": ("engine.signaling.client", "from aiortc import RTCPeerConnection"),
    "sqlite": ("engine.hub.other", "import sqlite3"),
    "sqlalchemy": ("engine.store.sample", "import sqlalchemy.orm"),
    "keys": ("engine.manifest.sample", "import cryptography"),
    "no-unpickling": ("engine.checkpoints.sample", "import pickle"),
}
"""For each rule, a module and what it must not contain. Some break another rule too."""

ALLOWED = {
    "app.fine": "from engine.contract import sample",
    "engine.training.models": "import torch, transformers",
    "engine.checkpoints.export": "import torch",
    "engine.transport.fine": "import aiortc, asyncio",
    "engine.store.fine": "import sqlite3",
    "engine.hub.fine": "import sqlalchemy, alembic",
    "engine.identity.fine": "import cryptography, keyring",
    "engine.runtime.fine": "from engine.checkpoints import export",
    "engine.core.clock": "import time",
    "engine.contract.sample": "import msgspec",
}


def rules() -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(CONFIG, encoding="utf-8")
    return config


def names_of_rules() -> dict[str, str]:
    found = rules()
    return {section.split(":")[-1]: found[section]["name"] for section in found.sections() if "contract:" in section}


def named_modules() -> Iterator[str]:
    for section in rules().values():
        for option in ("source_modules", "ignore_imports"):
            for line in section.get(option, "").splitlines():
                name = line.partition(" ->")[0].strip()
                if name and "*" not in name and not name.startswith("#"):
                    yield name


def write_module(root: Path, name: str, text: str) -> None:
    *parents, last = name.split(".")
    folder = root
    for parent in parents:
        folder = folder / parent
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    if (folder / last).is_dir():
        (folder / last / "__init__.py").write_text(text)
    else:
        (folder / f"{last}.py").write_text(text)


def lint(root: Path, modules: dict[str, str]) -> dict[str, str]:
    """KEPT or BROKEN for each rule, in a tree of these modules and empty ones."""
    for name in sorted(named_modules()):
        write_module(root, f"{name}.__init__", "")
    for name, text in modules.items():
        write_module(root, name, text + "\n")
    code = "from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", code, "--config", str(CONFIG), "--no-cache"]
    environment = {**os.environ, "COLUMNS": "300", "PYTHONPATH": str(root)}
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=60, check=False)
    titles = names_of_rules()
    found = {
        rule: status.group(1)
        for rule, title in titles.items()
        if (status := re.search(rf"{re.escape(title)} (KEPT|BROKEN)", " ".join(run.stdout.split())))
    }
    assert set(found) == set(titles), run.stdout + run.stderr
    assert run.returncode == (1 if "BROKEN" in found.values() else 0)
    return found


def test_every_rule_has_a_sample() -> None:
    assert set(VIOLATIONS) == set(names_of_rules())


def test_what_is_allowed(tmp_path: Path) -> None:
    assert set(lint(tmp_path, ALLOWED).values()) == {"KEPT"}


def test_what_is_not(tmp_path: Path) -> None:
    found = lint(tmp_path, ALLOWED | dict(VIOLATIONS.values()))
    assert [rule for rule, status in found.items() if status == "KEPT"] == []


@pytest.mark.parametrize("name", sorted(set(named_modules())))
def test_the_rules_name_only_what_exists(name: str) -> None:
    path = ROOT.joinpath(*name.split("."))
    assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
