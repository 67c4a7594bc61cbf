"""Machine: what the computer's sensors say, and what Potluck itself takes. What cannot be read says so."""

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.context import Context
from app.format import cannot_read, celsius, clock, decimal, duration, of_total, one_line, percent, size
from app.language import say
from app.pages.machine_history import HistoryCard
from app.pages.machine_kit import KitCard
from app.pages.machine_measure import MeasureCard
from app.pages.machine_more import draw_text, gpu_more, guest_facts, others_text, slowed_text, told_by, warmth_text
from app.pages.page import Page
from app.state.throttle import Throttle
from app.widgets.card import Card, line
from app.widgets.columns import Columns
from app.widgets.facts import Facts
from app.widgets.figure import Figure
from app.widgets.meter import Meter
from app.widgets.text import Text
from app.words import translate
from engine.contract.link_words import reached_text
from engine.contract.snapshot import EngineInfo, GpuReading, Machine, SessionState, Settings

MACHINE_MILLISECONDS = 500


class Reading(QWidget):
    """A figure with a bar under it."""

    def __init__(self, context: Context, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.figure = Figure(label)
        self.meter = Meter(context.theme, label)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.figure, 1)
        layout.addWidget(self.meter)

    def show_value(self, value: str, detail: str, share: float | None) -> None:
        """Figure, detail, and the bar's share; no bar when there is none."""
        self.figure.show_value(value, detail)
        self.meter.show_share(share)
        self.meter.setVisible(share is not None)


class MachinePage(Page):
    """Readings, graphics, and Potluck's own use."""

    def __init__(self, context: Context, parent: QWidget | None = None) -> None:
        super().__init__(context, say("pages", "Machine"), parent=parent)
        self.readings = {
            "cpu": Reading(context, say("machine", "Processor in use")),
            "memory": Reading(context, say("machine", "Memory in use")),
            "disk": Reading(context, say("machine", "Free disk space")),
            "heat": Reading(context, say("machine", "Temperature")),
            "power": Reading(context, say("machine", "Power")),
            "idle": Reading(context, say("machine", "Your presence")),
            "others": Reading(context, say("machine", "Other programs")),
            "draw": Reading(context, say("machine", "Power draw")),
            "slowed": Reading(context, say("machine", "Processor slowed down")),
        }
        self.computer = Text(role="muted", wrap=True)
        self.gpus = Facts(stacked=True)
        self.no_gpu = Text(role="muted", wrap=True)
        self.own = Facts()
        self.guest = Facts()
        self.history = HistoryCard(context)
        self.kit = KitCard(context)
        self.measure = MeasureCard(context)
        self.read_at = Text(role="label")
        self._build()
        refresh = Throttle(self.refresh, MACHINE_MILLISECONDS, self)
        mirror = context.mirror
        changes = (mirror.machine_changed, mirror.engine_changed, mirror.session_changed, mirror.governor_changed)
        for signal in (*changes, mirror.settings_changed):
            signal.connect(refresh)
        self.refresh()

    def _build(self) -> None:
        computer = Card(say("machine", "This computer"))
        computer.aside.addWidget(self.read_at)
        computer.body.addWidget(self.computer)
        computer.body.addSpacing(8)
        parts = list(self.readings.values())
        computer.body.addWidget(Columns(parts[:3], threshold=420, gap=24))
        for row in (parts[3:6], parts[6:]):
            computer.body.addSpacing(8)
            computer.body.addWidget(line())
            computer.body.addSpacing(8)
            computer.body.addWidget(Columns(row, threshold=420, gap=24))
        graphics = Card(say("machine", "Graphics processors"))
        graphics.body.addWidget(self.no_gpu)
        graphics.body.addWidget(self.gpus)
        graphics.body.addStretch(1)
        own = Card(say("machine", "Potluck on this computer"))
        own.body.addWidget(self.own)
        own.body.addStretch(1)
        guest = Card(say("machine", "What Potluck looks at before it works"))
        guest.body.addWidget(self.guest)
        guest.body.addStretch(1)
        self.column.addWidget(self.kit)
        self.column.addWidget(computer)
        self.column.addWidget(self.history)
        self.column.addWidget(Columns([guest, self.measure], threshold=760))
        self.column.addWidget(Columns([own, graphics], threshold=760, stretches=(3, 2)))
        self.column.addStretch(1)

    def refresh(self) -> None:
        """Show the newest readings."""
        state = self.context.mirror.state
        machine = state.machine if state is not None else Machine()
        self.computer.show_text(computer_text(machine))
        time = "" if machine.read_at is None else clock(machine.read_at, with_seconds=True)
        self.read_at.show_text(say("machine", "Read at {time}").format(time=time) if time else "")
        self._show_load(machine)
        self._show_surroundings(machine)
        settings = state.settings if state is not None else Settings()
        self.readings["others"].show_value(*others_text(machine), None)
        self.readings["draw"].show_value(*draw_text(machine, settings.electricity_price_per_kwh), None)
        self.readings["slowed"].show_value(*slowed_text(machine), None)
        self.guest.show_facts(guest_facts(machine, settings, state.governor) if state is not None else [])
        self.no_gpu.show_text("" if machine.gpus else say("machine", "None found. Training uses the processor."))
        self.gpus.show_facts([(one_line(gpu.name, 80), gpu_text(gpu)) for gpu in machine.gpus])
        hidden = settings.relay_only
        self.own.show_facts(own_facts(state.engine, state.session, relay_only=hidden) if state is not None else [])

    def _show_load(self, machine: Machine) -> None:
        load = machine.cpu_load_percent
        self.readings["cpu"].show_value(
            cannot_read() if load is None else percent(load),
            cores_text(machine),
            None if load is None else load / 100,
        )
        used, total = machine.memory_used_bytes, machine.memory_total_bytes
        share = used / total if used is not None and total else None
        self.readings["memory"].show_value(
            cannot_read() if share is None else percent(100 * share), of_total(used, total) if share else "", share
        )
        free = machine.disk_free_bytes
        where = say("machine", "where Potluck keeps its files")
        self.readings["disk"].show_value(cannot_read() if free is None else size(free), where, None)

    def _show_surroundings(self, machine: Machine) -> None:
        told = told_by(machine.temperature_source, known=machine.temperature_celsius is not None)
        from_source = told or say("machine", "no sensor found")
        self.readings["heat"].show_value(warmth_text(machine), from_source, None)
        self.readings["power"].show_value(*power_text(machine), None)
        self.readings["idle"].show_value(*presence_text(machine), None)


def device_text(device: str) -> str:
    """Where training computes."""
    return say("machine", "the processor") if device == "cpu" else one_line(device, 80)


def computer_text(machine: Machine) -> str:
    """System and processor on one line."""
    parts = [one_line(machine.cpu_name, 100), one_line(machine.system, 100)]
    return ", ".join(part for part in parts if part)


def cores_text(machine: Machine) -> str:
    """Cores, threads and clock."""
    parts = []
    if machine.cores_physical is not None:
        parts.append(say("machine", "%n cores", None, machine.cores_physical))
    if machine.cores_logical is not None and machine.cores_logical != machine.cores_physical:
        parts.append(say("machine", "%n threads", None, machine.cores_logical))
    if machine.cpu_frequency_hertz:
        parts.append(f"{decimal(machine.cpu_frequency_hertz / 1e9, 1)} GHz")
    return ", ".join(parts)


def power_text(machine: Machine) -> tuple[str, str]:
    """Where the power comes from, and the battery's charge."""
    charge = machine.battery_percent
    detail = "" if charge is None else say("machine", "battery at {percent}").format(percent=percent(charge))
    if machine.battery_source:
        told = told_by(machine.battery_source, known=machine.on_battery is not None)
        detail = f"{detail}, {told}" if detail else told
    if machine.on_battery is None:
        return say("machine", "No battery found"), detail
    return (say("machine", "On battery") if machine.on_battery else say("machine", "Plugged in")), detail


def presence_text(machine: Machine) -> tuple[str, str]:
    """When the user last touched the computer, and who says so."""
    if machine.idle_seconds is None:
        return cannot_read(), say("machine", "this system does not tell when you are away")
    source = one_line(machine.idle_source, 80)
    detail = say("machine", "from {source}").format(source=source) if source else ""
    if detail and machine.idle_read_at is not None:
        read = say("machine", "read at {time}").format(time=clock(machine.idle_read_at, with_seconds=True))
        detail = f"{detail}, {read}"
    if machine.idle_seconds < 60:
        return say("machine", "Here now"), detail
    return say("machine", "Away for {time}").format(time=duration(machine.idle_seconds)), detail


def gpu_text(gpu: GpuReading) -> str:
    """One graphics processor in words."""
    parts = []
    if not gpu.usable:
        reason = one_line(gpu.detail, 160)
        parts.append(say("machine", "not used: {reason}").format(reason=reason or cannot_read()))
    if gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None:
        parts.append(of_total(gpu.memory_used_bytes, gpu.memory_total_bytes))
    if gpu.load_percent is not None:
        parts.append(say("machine", "{percent} busy").format(percent=percent(gpu.load_percent)))
    if gpu.temperature_celsius is not None:
        parts.append(celsius(gpu.temperature_celsius))
    parts += gpu_more(gpu)
    return ", ".join(parts) or cannot_read()


def own_facts(engine: EngineInfo, session: SessionState | None, *, relay_only: bool) -> list[tuple[str, str]]:
    """What Potluck takes and who it is."""
    stores = {
        "keyring": say("machine", "in the system's keyring"),
        "file": say("machine", "in a file of the folder below"),
    }
    worker = engine.worker_memory_bytes
    stopped = say("machine", "not running")
    facts = [
        (say("machine", "Engine memory"), cannot_read() if engine.memory_bytes is None else size(engine.memory_bytes)),
        (say("machine", "Training memory"), stopped if worker is None else size(worker)),
    ]
    if session is not None and session.device:
        facts.append((say("machine", "Trains on"), device_text(session.device)))
    if session is not None and session.checkpoint_at is not None and session.checkpoint_step is not None:
        saved = say("machine", "at {time}, after round {step}")
        text = saved.format(time=clock(session.checkpoint_at), step=session.checkpoint_step)
        facts.append((say("machine", "Model last saved"), text))
    return [
        *facts,
        (say("machine", "Reached by others"), reached_text(session, relay_only=relay_only, translate=translate)),
        (say("machine", "Running since"), clock(engine.started_at)),
        (say("machine", "Version"), one_line(engine.version, 40)),
        (say("machine", "Your key"), stores.get(engine.identity_store, one_line(engine.identity_store, 40))),
        (say("machine", "Your id"), one_line(engine.peer_id, 80)),
        (say("machine", "Folder"), one_line(engine.data_dir, 300)),
    ]
