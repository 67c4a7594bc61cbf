"""PURE. Settings that could never let any work be done, told before they are kept."""

from typing import Final

from engine.contract.snapshot import Machine, Settings
from engine.contract.week import common

ALWAYS_RUNNING: Final = frozenset(
    {
        "csrss",
        "dwm",
        "explorer",
        "finder",
        "gnome-shell",
        "init",
        "kernel_task",
        "kwin_wayland",
        "kwin_x11",
        "launchd",
        "loginwindow",
        "plasmashell",
        "potluck",
        "svchost",
        "systemd",
        "windowserver",
        "winlogon",
        "xorg",
    }
)
"""Programs that run whenever somebody is logged in, lower case, without an ending."""


def check_settings(
    settings: Settings, machine: Machine | None = None, memory_needed_bytes: int | None = None
) -> tuple[str, ...]:
    """One sentence for each reason why these settings can never be satisfied; empty when they can.

    With `machine`, also what this computer's size rules out; with `memory_needed_bytes`, what the project needs.
    """
    return (
        *_weeks(settings),
        *_apps(settings),
        *_memory(settings, machine, memory_needed_bytes),
        *_disk(settings, machine),
    )


def _weeks(settings: Settings) -> list[str]:
    found = []
    if settings.compute_schedule and not any(settings.compute_schedule):
        found.append("No hour of the week is left for training.")
    if settings.network_schedule and not any(settings.network_schedule):
        found.append("No hour of the week is left for the network, which training needs.")
    if not found and not any(common(settings.compute_schedule, settings.network_schedule)):
        found.append("Training hours and network hours have no hour in common.")
    return found


def _apps(settings: Settings) -> list[str]:
    return [
        f"{app.strip()} always runs, so Potluck would never work."
        for app in settings.exclusive_apps
        if app.strip().lower().removesuffix(".exe").removesuffix(".app") in ALWAYS_RUNNING
    ]


def _memory(settings: Settings, machine: Machine | None, needed: int | None) -> list[str]:
    total = machine.memory_total_bytes if machine is not None else None
    if not total:
        return []
    if settings.memory_free_bytes >= total:
        return [f"This computer has {total / 1e9:.0f} GB of memory, not more than what is to stay free."]
    allowed = min(total * settings.memory_away_percent // 100, total - settings.memory_free_bytes)
    if needed is not None and needed > allowed:
        return [f"The project needs {needed / 1e9:.1f} GB of memory, and {allowed / 1e9:.1f} GB are allowed."]
    return []


def _disk(settings: Settings, machine: Machine | None) -> list[str]:
    total = None if machine is None else machine.disk_total_bytes
    if total is None or settings.disk_free_bytes < total:
        return []
    return [
        f"{settings.disk_free_bytes / 1e9:.1f} GB of disk space cannot stay free: the disk has {total / 1e9:.1f} GB."
    ]
