"""The tray: state by shape, Pause, Open, Stop and quit."""

from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.context import Context
from app.desktop import icons
from app.format import one_line
from app.language import say
from app.link import operations
from app.widgets.override_banner import ANYWAY_SECONDS, anyway_text, may_work_anyway
from app.widgets.snooze import fill_pause_menu
from app.widgets.state_header import Control, control_for
from app.words import link_sentence, tray_line, tray_tip

MAX_TIP_CHARS: Final = 127
"""Windows shows no more."""


class Tray(QObject):
    """The tray icon, where the desktop has a tray.

    Signals:
        open_wanted: show the window.
        quit_wanted: end everything.
    """

    open_wanted = Signal()
    quit_wanted = Signal()

    def __init__(self, context: Context, *, available: bool | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._available = QSystemTrayIcon.isSystemTrayAvailable() if available is None else available
        self.icon = QSystemTrayIcon(self)
        self.icon_name = ""
        self.menu = QMenu()
        self.status_action = QAction(self.menu, enabled=False)
        self.pause_menu = QMenu(say("pause", "Pause"), self.menu)
        self.resume_action = QAction(say("pause", "Resume"), self.menu)
        self.anyway_menu = QMenu(say("override", "Work anyway"), self.menu)
        self.limits_action = QAction(say("override", "Use my limits again"), self.menu)
        self.open_action = QAction(say("tray", "Open Potluck"), self.menu)
        self.quit_action = QAction(say("tray", "Stop and quit"), self.menu)
        self._build()
        self._connect()
        self.refresh()

    @property
    def shown(self) -> bool:
        """Whether the user can find Potluck in a tray."""
        return self._available and self.icon.isVisible()

    def show(self) -> None:
        """Show the icon, where there is a tray."""
        if self._available:
            self.icon.show()

    def hide(self) -> None:
        """Take the icon away."""
        self.icon.hide()

    def notify(self, title: str, text: str) -> None:
        """A message from the tray."""
        if self.shown:
            self.icon.showMessage(title, text, icons.icon(icons.MARK_WHOLE, self._context.theme.roles.action))

    def _build(self) -> None:
        fill_pause_menu(self.pause_menu, lambda seconds: operations.pause(self._context.link, seconds))
        for seconds in ANYWAY_SECONDS:
            action = self.anyway_menu.addAction(anyway_text(seconds))
            action.triggered.connect(lambda _checked=False, s=seconds: operations.override(self._context.link, s))
        self.menu.addAction(self.status_action)
        self.menu.addSeparator()
        self.menu.addMenu(self.pause_menu)
        self.menu.addAction(self.resume_action)
        self.menu.addMenu(self.anyway_menu)
        self.menu.addAction(self.limits_action)
        self.menu.addSeparator()
        self.menu.addAction(self.open_action)
        self.menu.addAction(self.quit_action)
        self.icon.setContextMenu(self.menu)

    def _connect(self) -> None:
        context = self._context
        self.resume_action.triggered.connect(lambda: operations.resume(context.link))
        self.limits_action.triggered.connect(lambda: operations.cancel_override(context.link))
        self.open_action.triggered.connect(self.open_wanted)
        self.quit_action.triggered.connect(self.quit_wanted)
        self.icon.activated.connect(self._activated)
        self.icon.messageClicked.connect(self.open_wanted)
        mirror = context.mirror
        for signal in (mirror.status_changed, mirror.session_changed, mirror.governor_changed):
            signal.connect(self.refresh)
        context.link.status_changed.connect(self.refresh)
        context.theme.changed.connect(self._draw)

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in (QSystemTrayIcon.ActivationReason.Trigger, QSystemTrayIcon.ActivationReason.DoubleClick):
            self.open_wanted.emit()

    def refresh(self, *_: object) -> None:
        """Show what holds now."""
        context, state = self._context, self._context.mirror.state
        connected = context.link.connected and state is not None
        if connected and state is not None:
            text, run = tray_line(state), state.status.state
            tip = tray_tip(state)
        else:
            text, run = str(link_sentence(context.link.status, gave_up=context.launcher.has_given_up).head), None
            tip = text
        control = control_for(state, connected=connected, can_retry=False)
        self.status_action.setText(text)
        self.pause_menu.menuAction().setVisible(control is not Control.RESUME)
        self.pause_menu.setEnabled(control is Control.PAUSE)
        self.resume_action.setVisible(control is Control.RESUME)
        self.anyway_menu.menuAction().setVisible(may_work_anyway(state, connected=connected))
        self.limits_action.setVisible(connected and state is not None and state.governor.override_until is not None)
        self.icon.setToolTip(one_line(f"Potluck: {tip}", MAX_TIP_CHARS))
        name = icons.mark_for(run)
        if name != self.icon_name:
            self.icon_name = name
            self._draw()

    def _draw(self) -> None:
        self.icon.setIcon(icons.tray_icon(self.icon_name, self._context.theme.roles.text))
