"""Whether the user asked the system to save energy."""

from typing import Final

from engine.hardware.answer import Answer
from engine.hardware.host import Host
from engine.hardware.macos_process_info import low_power_mode
from engine.hardware.windows_power import read_windows_power

_DAEMONS: Final = (
    ("org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles"),
    ("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles"),  # its name until version 0.20
)


def read_energy_saver(host: Host) -> Answer[bool]:
    """Linux: power-profiles-daemon, or what answers in its name (tuned-ppd)."""
    if host.is_windows:
        power = read_windows_power(host.load)
        return Answer(None if power is None else power.saver, "Windows battery saver")
    if host.is_mac:
        return Answer(low_power_mode(host.load), "macOS low power mode")
    for service, path in _DAEMONS:
        profile = host.system_bus.get(service, path, service, "ActiveProfile")
        if isinstance(profile, str):
            return Answer(profile == "power-saver", "power profiles")
    return Answer(None, "no power profiles on this computer")
