"""Answers each line of standard input with what NVIDIA's library says of all its cards, as a JSON list in one line.

Run as a program of its own: a driver in trouble hangs whoever asks it. Ends with 1 when there is no such library or no
driver. Imports nothing of Potluck. Numbers that a card does not tell are null.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

TOO_HOT = 0x8 | 0x20 | 0x40  # hardware slowdown, software and hardware thermal slowdown
SAMPLE_MICROSECONDS = 5_000_000
MAX_PROCESSES = 512


def told(nvml: Any, ask: Callable[[], Any]) -> Any:
    """None when the card does not support the question, or the library is too old to know it."""
    try:
        return ask()
    except (nvml.NVMLError, AttributeError):
        return None


def name_of(nvml: Any, handle: Any) -> str:
    """Older libraries give bytes."""
    name = told(nvml, lambda: nvml.nvmlDeviceGetName(handle))
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or "NVIDIA graphics")


def driver_of(nvml: Any) -> str:
    """Empty when it is not told."""
    ask = getattr(nvml, "nvmlSystemGetDriverVersion", None)
    version = told(nvml, ask) if ask is not None else None
    return version.decode("ascii", "replace") if isinstance(version, bytes) else str(version or "")


def loads_of(nvml: Any, handle: Any, newest: dict[int, int], index: int) -> dict[str, int] | None:
    """Percent of the card's cores by process, the newest sample of each; None where it is not told (Windows)."""
    since = newest.get(index, 0)
    try:
        samples = nvml.nvmlDeviceGetProcessUtilization(handle, since)
    except nvml.NVMLError as error:
        return {} if error.value == nvml.NVML_ERROR_NOT_FOUND else None
    except AttributeError:
        return None
    latest: dict[int, Any] = {}
    for sample in samples[:MAX_PROCESSES]:
        if sample.pid not in latest or latest[sample.pid].timeStamp < sample.timeStamp:
            latest[sample.pid] = sample
    end = max((sample.timeStamp for sample in latest.values()), default=since)
    newest[index] = max(since, end - SAMPLE_MICROSECONDS)
    return {str(pid): sample.smUtil for pid, sample in latest.items()}


def memory_of(nvml: Any, handle: Any) -> dict[str, int] | None:
    """Bytes of the card's memory by process; None where it is not told (Windows' driver model hides it)."""
    processes = told(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    if processes is None:
        return None
    held = processes[:MAX_PROCESSES]
    return {str(process.pid): process.usedGpuMemory for process in held if process.usedGpuMemory is not None}


def card(nvml: Any, index: int, newest: dict[int, int]) -> dict[str, Any]:
    """All that is asked of one card."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = told(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    load = told(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    reasons = told(nvml, lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return {
        "name": name_of(nvml, handle),
        "memory_total_bytes": None if memory is None else memory.total,
        "memory_used_bytes": None if memory is None else memory.used,
        "load_percent": None if load is None else load.gpu,
        "temperature_celsius": told(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        "slowdown_celsius": told(
            nvml, lambda: nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        ),
        "power_milliwatts": told(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
        "energy_millijoules": told(nvml, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
        "throttled": None if reasons is None else bool(reasons & TOO_HOT),
        "process_loads": loads_of(nvml, handle, newest, index),
        "driver_version": driver_of(nvml),
        "process_memory_bytes": memory_of(nvml, handle),
    }


def cards(nvml: Any, newest: dict[int, int]) -> list[dict[str, Any]]:
    """Every card; one that fails altogether is left out."""
    answers = [told(nvml, partial(card, nvml, index, newest)) for index in range(nvml.nvmlDeviceGetCount())]
    return [answer for answer in answers if answer is not None]


def main() -> int:
    """Until standard input ends."""
    try:
        import pynvml as nvml  # of nvidia-ml-py, which need not be there
    except ImportError:
        return 1
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return 1
    newest: dict[int, int] = {}
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(cards(nvml, newest)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
