"""Whether the network costs by use, and whether it wants a log-in page first.

Both are asked of the system: nothing is sent to the internet for it.
"""

from dataclasses import dataclass
from typing import Final

from engine.hardware.answer import Answer, number
from engine.hardware.command import run_command
from engine.hardware.host import Host
from engine.hardware.line_child import script_command

_SERVICE: Final = "org.freedesktop.NetworkManager"
_PATH: Final = "/org/freedesktop/NetworkManager"
_METERED: Final = {1: True, 2: False, 3: True, 4: False}  # NMMetered; 3 and 4 are the manager's guesses, 0 unknown
_CAPTIVE: Final = {2: True, 4: False}  # NMConnectivityState; 1: no network, 3: not the whole internet

WINDOWS_LIMIT_SECONDS: Final = 5.0
UNRESTRICTED: Final = 0x1  # NLM_CONNECTION_COST; 0x2 fixed, 0x4 variable
_COSTS: Final = 0x2 | 0x4 | 0x10000 | 0x40000  # fixed, variable, over the data limit, roaming


@dataclass(frozen=True, slots=True)
class NetworkReading:
    """Of the connection that everything goes through."""

    metered: Answer[bool]
    captive_portal: Answer[bool]


def read_network(host: Host) -> NetworkReading:
    """Linux: NetworkManager. Windows: the network list manager's cost, asked in a process of its own."""
    if host.is_windows:
        text = run_command(script_command("windows_network_cost.py"), WINDOWS_LIMIT_SECONDS)
        return NetworkReading(of_windows_cost(text or ""), Answer(None, "Windows is not asked"))
    if host.is_mac:
        silent: Answer[bool] = Answer(None, "macOS does not tell this program")
        return NetworkReading(silent, silent)
    metered = host.system_bus.get(_SERVICE, _PATH, _SERVICE, "Metered")
    connectivity = host.system_bus.get(_SERVICE, _PATH, _SERVICE, "Connectivity")
    source = "no NetworkManager on this computer" if metered is None else "NetworkManager"
    return NetworkReading(
        Answer(_METERED.get(metered) if isinstance(metered, int) else None, source),
        Answer(_CAPTIVE.get(connectivity) if isinstance(connectivity, int) else None, source),
    )


def of_windows_cost(text: str) -> Answer[bool]:
    """From the number that windows_network_cost.py prints: flags of NLM_CONNECTION_COST, 0 for unknown."""
    flags = number(text.strip(), 1, 0xFFFFFFFF)
    if flags is None:
        return Answer(None, "Windows does not tell")
    return Answer(bool(int(flags) & _COSTS), "Windows network cost")
