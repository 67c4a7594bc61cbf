"""The processor: name, cores, load, clock."""

import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from engine.hardware.command import run_command

if sys.platform == "win32":
    import winreg

CPUINFO: Final = Path("/proc/cpuinfo")
_NAME_KEYS: Final = ("model name", "Model", "Hardware", "cpu model")
"""x86; Raspberry Pi; other ARM boards; MIPS."""


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What does not change while the computer runs."""

    name: str
    cores_physical: int | None
    cores_logical: int | None


def read_facts() -> CpuFacts:
    """Name and cores."""
    return CpuFacts(_name(), psutil.cpu_count(logical=False), psutil.cpu_count(logical=True))


def read_load_percent() -> float:
    """Of all cores together, 0 to 100, since the last call. The first call of a process means nothing."""
    return psutil.cpu_percent(interval=None)


def read_frequency_hertz() -> float | None:
    """Mean clock of the cores now; None where it is not known."""
    return _megahertz("current")


def read_frequency_max_hertz() -> float | None:
    """The fastest clock that the processor offers; None where it is not known."""
    return _megahertz("max")


def _megahertz(name: str) -> float | None:
    try:
        megahertz = float(getattr(psutil.cpu_freq(), name, 0.0))  # None where psutil finds none
    except (OSError, NotImplementedError, RuntimeError, AttributeError):  # virtual machines, some ARM boards
        return None
    return megahertz * 1e6 if megahertz > 0 else None


def _name() -> str:
    if sys.platform == "darwin":
        name = run_command(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], 1.0)
    elif sys.platform == "win32":
        name = _name_in_registry(winreg)
    else:
        try:
            name = name_in_cpuinfo(CPUINFO.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            name = None
    return _tidy(name or platform.processor() or platform.machine())


def name_in_cpuinfo(text: str) -> str | None:
    """The processor's name in the text of /proc/cpuinfo."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip():
            found.setdefault(key.strip(), value.strip())
    return next((found[key] for key in _NAME_KEYS if key in found), None)


def _name_in_registry(registry: Any) -> str | None:
    path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, path) as key:
            return str(registry.QueryValueEx(key, "ProcessorNameString")[0])
    except OSError:
        return None


def _tidy(name: str) -> str:
    return re.sub(r"\s+", " ", name.replace("(R)", "").replace("(TM)", "").replace("(tm)", "")).strip()
