"""Machine: what else Potluck looks at before it works, with where it comes from and how old it is."""

from app.format import cannot_read, celsius, clock, decimal, one_line, percent, size, whole
from app.language import say
from app.pages.settings_power import energy_text
from engine.contract.snapshot import GovernorState, GpuReading, Machine, Settings


def told_by(source: str, *, known: bool) -> str:
    """Where a reading comes from; of one that is not known, the source says why."""
    shown = one_line(source, 80)
    return say("machine", "from {source}").format(source=shown) if shown and known else shown


def warmth_text(machine: Machine) -> str:
    """The processor's temperature, or the system's word for it where there is no number."""
    words = {
        "nominal": say("machine", "Cool"),
        "fair": say("machine", "Warm"),
        "serious": say("machine", "Hot"),
        "critical": say("machine", "Too hot"),
    }
    if machine.temperature_celsius is None and machine.thermal_state in words:
        return words[machine.thermal_state]
    return celsius(machine.temperature_celsius)


def others_text(machine: Machine) -> tuple[str, str]:
    """Other programs' use of the processor."""
    load = machine.foreign_cpu_percent
    detail = say("machine", "of all processors")
    return (cannot_read(), "") if load is None else (percent(load), detail)


def draw_text(machine: Machine, price_per_kwh: float | None) -> tuple[str, str]:
    """What power the computer takes, who says so, and today's energy."""
    told = told_by(machine.power_source, known=machine.power_watts is not None)
    energy = energy_text(machine, price_per_kwh)
    today = say("machine", "today {energy}").format(energy=energy) if energy else ""
    detail = ", ".join(part for part in (told, today) if part)
    if machine.power_watts is None:
        return cannot_read(), detail
    return say("machine", "about {watts} W").format(watts=decimal(machine.power_watts, 0)), detail


def slowed_text(machine: Machine) -> tuple[str, str]:
    """Whether the processor slows itself down, its clock, its fan."""
    parts = []
    now, most = machine.cpu_frequency_hertz, machine.cpu_frequency_max_hertz
    if now is not None and most is not None:
        text = say("machine", "{now} of {most} GHz")
        parts.append(text.format(now=decimal(now / 1e9, 1), most=decimal(most / 1e9, 1)))
    if machine.fan_rpm is not None:
        parts.append(say("machine", "fan at {rpm} rpm").format(rpm=whole(machine.fan_rpm)))
    if machine.throttled is None:
        return cannot_read(), ", ".join(parts)
    slowed, full = say("machine", "Yes, for heat or power"), say("machine", "No")
    return (slowed if machine.throttled else full), ", ".join(parts)


def yes_no(value: bool | None, yes: str, no: str) -> str:
    """Words for a reading that may be unknown."""
    return cannot_read() if value is None else (yes if value else no)


def network_text(machine: Machine) -> str:
    """What kind of line this is."""
    if machine.captive_portal:
        return say("machine", "asks you to sign in first")
    return yes_no(machine.metered, say("machine", "metered"), say("machine", "not metered"))


def guest_facts(machine: Machine, settings: Settings, governor: GovernorState) -> list[tuple[str, str]]:
    """Readings that decide whether Potluck works."""
    profiles = {"in_use": say("machine", "in use"), "away": say("machine", "nobody here")}
    locked, unlocked = say("machine", "locked"), say("machine", "not locked")
    filled, plain = say("machine", "filled by a program"), say("machine", "not filled by a program")
    on, off = say("machine", "on"), say("machine", "off")
    facts = [
        (say("machine", "Counts as"), profiles.get(governor.profile, cannot_read())),
        (say("machine", "Session"), yes_no(machine.session_locked, locked, unlocked)),
        (say("machine", "Screen"), yes_no(machine.full_screen, filled, plain)),
        (say("machine", "Energy saver"), yes_no(machine.energy_saver, on, off)),
        (say("machine", "Network"), network_text(machine)),
        (say("machine", "Potluck's files"), files_text(machine, settings)),
    ]
    if settings.exclusive_apps:
        running = one_line(machine.exclusive_app_running, 60)
        facts.append((say("machine", "Programs that come first"), running or say("machine", "none of them runs")))
    if governor.data_used_bytes is not None:
        days = say("machine", "%n days", None, settings.data_cap_days)
        text = say("machine", "{used} in {days}").format(used=size(governor.data_used_bytes), days=days)
        facts.append((say("machine", "Sent and received"), text))
    return facts


def files_text(machine: Machine, settings: Settings) -> str:
    """What our own folder takes of what it may."""
    if machine.disk_used_bytes is None:
        return cannot_read()
    text = say("machine", "{used} of {limit} allowed")
    return text.format(used=size(machine.disk_used_bytes), limit=size(settings.disk_limit_bytes))


def gpu_more(gpu: GpuReading) -> list[str]:
    """What is known of a graphics card beyond its load."""
    parts = []
    if gpu.foreign_load_percent is not None:
        parts.append(say("machine", "{percent} by other programs").format(percent=percent(gpu.foreign_load_percent)))
    if gpu.power_watts is not None:
        parts.append(say("machine", "about {watts} W").format(watts=decimal(gpu.power_watts, 0)))
    if gpu.throttled:
        parts.append(say("machine", "slowed down for heat or power"))
    if gpu.read_at is not None:
        parts.append(say("machine", "read at {time}").format(time=clock(gpu.read_at, with_seconds=True)))
    return parts
