"""Which device the worker computes on."""

from typing import Final

import torch

DEVICES: Final = ("auto", "cpu", "cuda", "mps")


class DeviceUnusable(Exception):
    """The device that was asked for is not there, or fails at the simplest sum."""


def choose_device(wanted: str) -> torch.device:
    """`auto` takes CUDA, then Apple's MPS, where they work, else the CPU.

    Raises:
        DeviceUnusable: an explicitly named device cannot be used, or the name is none of DEVICES.
    """
    if wanted not in DEVICES:
        raise DeviceUnusable(f"{wanted[:20]!r} is not one of {', '.join(DEVICES)}")
    if wanted != "auto":
        problem = _problem(wanted)
        if problem:
            raise DeviceUnusable(f"{wanted}: {problem}")
        return torch.device(wanted)
    for name in ("cuda", "mps"):
        if not _problem(name):
            return torch.device(name)
    return torch.device("cpu")


def usable_devices() -> list[tuple[str, str, str]]:
    """Every device that torch sees, the processor first: torch's name, its own name, and why it cannot be used ("")."""
    found = [("cpu", "", "")]
    if torch.cuda.is_available():
        for place in range(torch.cuda.device_count()):
            name = f"cuda:{place}"
            found.append((name, torch.cuda.get_device_name(place), _fails(name)))
    if torch.backends.mps.is_available():
        found.append(("mps", "", _fails("mps")))
    return found


def _problem(name: str) -> str:
    """Empty when the device works. A driver that is present may still be too old or out of memory: so try."""
    if name == "cuda" and not torch.cuda.is_available():
        return "not available"
    if name == "mps" and not torch.backends.mps.is_available():
        return "not available"
    return _fails(name)


def _fails(name: str) -> str:
    """What is wrong with the simplest sum there; empty when it works."""
    try:
        total = (torch.ones(2, device=name) + 1.0).sum().item()
    except RuntimeError as error:
        return str(error).partition("\n")[0][:200]
    return "" if total == 4.0 else "computes wrongly"
