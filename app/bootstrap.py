"""Builds every object and connects them; no logic."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QEvent, QLocale, QTranslator
from PySide6.QtWidgets import QApplication

from app.context import Context
from app.desktop.single_instance import InstanceServer
from app.desktop.theme import Theme
from app.errors import ErrorReporter
from app.format import set_default_locale
from app.language import install_translations
from app.link.client import EngineLink, LinkState, LinkStatus
from app.link.launcher import EngineLauncher
from app.profile import Profile
from app.shell.closing import Closing
from app.shell.links import LinkOpener
from app.shell.main_window import MainWindow
from app.shell.notifications import Notifications
from app.shell.tray import Tray
from app.state.mirror import Mirror
from app.state.preferences import Preferences
from app.widgets.loss_chart import PlotLoader, load_after_paint


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line decides."""

    start_engine: bool = True
    quit_on_close: bool = False
    tray: bool | None = None  # None: ask the desktop


@dataclass(frozen=True, slots=True)
class Parts:
    """All of the window; keeps everything alive."""

    context: Context
    window: MainWindow
    tray: Tray
    closing: Closing
    links: LinkOpener
    notifications: Notifications
    instance: InstanceServer
    loader: PlotLoader
    translators: list[QTranslator]

    def open_link(self, address: str) -> None:
        """Raise the window, and follow a link if there is one."""
        self.window.raise_up()
        if address:
            self.links.open(address)

    def start(self, link: str = "") -> None:
        """Show the window and look for the engine."""
        self.tray.show()
        self.window.show()
        self.context.link.start()
        load_after_paint(self.loader, self.window)
        if link:
            self.links.open(link)

    def end(self) -> None:
        """Let go of everything, so that the process can end cleanly."""
        self.context.link.stop()
        self.instance.close()
        self.tray.hide()
        self.loader.wait()
        # Sockets that are to be deleted later must go before their owners do.
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def build(app: QApplication, profile: Profile, options: Options) -> Parts:
    """The window of a profile, not shown yet."""
    set_default_locale()
    translators = install_translations(app, QLocale())
    theme = Theme(app)
    theme.apply()
    link = EngineLink(profile.endpoint_file)
    launcher = EngineLauncher(profile.data_dir, enabled=options.start_engine)
    context = Context(profile, link, launcher, Mirror(link), theme, Preferences(profile.preferences_file))
    link.nobody_answers.connect(launcher.on_nobody_answers)
    link.status_changed.connect(lambda status: _tell_launcher(launcher, status))
    loader = PlotLoader()
    window = MainWindow(context, loader)
    tray = Tray(context, available=options.tray)
    tray.open_wanted.connect(window.raise_up)
    closing = Closing(context, window, tray, quit_on_close=options.quit_on_close)
    closing.finished.connect(app.quit)
    for ending in (app.commitDataRequest, app.saveStateRequest):
        ending.connect(closing.on_log_out)
    links = LinkOpener(context, window)
    window.projects.link_given.connect(links.open)
    links.opened.connect(window.projects.link.field.clear)
    notifications = Notifications(context, window, tray)
    instance = InstanceServer(profile.window_address)
    parts = Parts(context, window, tray, closing, links, notifications, instance, loader, translators)
    instance.called.connect(parts.open_link)
    return parts


def _tell_launcher(launcher: EngineLauncher, status: LinkStatus) -> None:
    if status.state is LinkState.CONNECTED:
        launcher.on_connected()


def report_errors(parts: Parts, reporter: ErrorReporter) -> None:
    """Error dialogs belong to the window."""
    reporter.window = parts.window
