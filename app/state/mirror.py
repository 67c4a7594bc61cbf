"""The window's copy of the engine's state, with one signal for each part that can change."""

import logging

from PySide6.QtCore import QObject, Signal

from app.link.client import EngineLink
from app.state.tree import FIELDS, BadState, StateTree
from engine.contract.codec import Patch, SnapshotMessage
from engine.contract.snapshot import EngineState

log = logging.getLogger(__name__)


class Mirror(QObject):
    """Holds the newest `EngineState`; `state` is None until the first snapshot and keeps the last one when the link
    is lost.

    Signals (each carries the part's new value):
        engine_changed, status_changed, hub_changed, settings_changed, machine_changed, governor_changed,
        measurement_changed, kit_changed, today_changed, projects_changed, session_changed, curve_changed,
        leaderboard_changed, problems_changed
    """

    engine_changed = Signal(object)
    status_changed = Signal(object)
    hub_changed = Signal(object)
    settings_changed = Signal(object)
    machine_changed = Signal(object)
    governor_changed = Signal(object)
    measurement_changed = Signal(object)
    kit_changed = Signal(object)
    today_changed = Signal(object)
    projects_changed = Signal(object)
    session_changed = Signal(object)
    curve_changed = Signal(object)
    leaderboard_changed = Signal(object)
    problems_changed = Signal(object)

    def __init__(self, link: EngineLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._tree: StateTree | None = None
        link.snapshot.connect(self.on_snapshot)
        link.patch.connect(self.on_patch)

    @property
    def state(self) -> EngineState | None:
        """The newest state."""
        return self._tree.state if self._tree is not None else None

    def on_snapshot(self, message: SnapshotMessage) -> None:
        """Replace everything and announce every part that differs."""
        before = self.state
        try:
            self._tree = StateTree(message.state)
        except BadState as error:
            log.info("the engine's state cannot be read: %s", error)
            self._link.reject_version()
            return
        for field in FIELDS:
            value = getattr(self._tree.state, field)
            if before is None or value != getattr(before, field):
                self._announce(field, value)

    def on_patch(self, patch: Patch) -> None:
        """Apply one change and announce its part."""
        if self._tree is None:
            self._link.reject_state("a change came before the state")
            return
        try:
            field = self._tree.apply(patch)
        except BadState as error:
            self._link.reject_state(str(error))
            return
        if field is not None:
            self._announce(field, getattr(self._tree.state, field))

    def _announce(self, field: str, value: object) -> None:
        getattr(self, f"{field}_changed").emit(value)
