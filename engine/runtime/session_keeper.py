"""Runs the session of one project at a time: starts it again after a failure, and ends it when asked."""

import asyncio
import logging
import secrets
from typing import Final, Literal, Protocol

from engine.contract.reasons import ProblemAction, ProblemCode, Scalar
from engine.core.errors import UserError
from engine.core.tasks import TaskOwner
from engine.manifest.verify import VerifiedManifest
from engine.runtime.session import Session
from engine.runtime.session_events import LeaveRequest, SessionCommand
from engine.store.rows import JoinedProject

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = 10.0


class KeeperListener(Protocol):
    """The supervisor's side."""

    def new_session(self, joined: JoinedProject, project: VerifiedManifest) -> Session:
        """One that has not begun, with its first commands posted.

        Raises:
            UserError, OSError: the project's folder cannot be used.
        """

    def on_session_unusable(self, project: VerifiedManifest, error: UserError | OSError) -> None:
        """None could begin, or go on, for a reason of this computer; it is tried again."""

    def on_session_over(self) -> None:
        """There is none now."""

    def on_leaving(self) -> None:
        """The one that runs was asked to end."""

    def on_problem(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar]) -> None:
        """The user should know."""


class SessionKeeper:
    """`start` and `end` are called by turns, under the caller's lock; `hasten` and `post` at any time."""

    def __init__(self, listener: KeeperListener, tasks: TaskOwner, restart_seconds: float = RESTART_SECONDS) -> None:
        self._listener = listener
        self._tasks = tasks
        self._restart_seconds = restart_seconds
        self._task: asyncio.Task[None] | None = None
        self.session: Session | None = None
        """The one that runs; none while one is being started again."""
        self._ending = self._held = False
        self.leaving_now = False
        """Without waiting for the round."""

    @property
    def started(self) -> bool:
        """Between `start` and the end of `end`."""
        return self._task is not None

    @property
    def leaving(self) -> bool:
        """The user leaves, or the engine ends. A session that the limits end only for a while does not leave."""
        return self._ending and not self._held

    def post(self, command: SessionCommand) -> None:
        """For the session, if one runs; a later one gets its own from `new_session`."""
        if self.session is not None:
            self.session.post(command)

    def start(self, joined: JoinedProject, project: VerifiedManifest) -> None:
        """Begin; nothing must be running."""
        self._task = self._tasks.spawn("session", self._run(joined, project))

    def hasten(self, when: Literal["after_round", "now"], *, held: bool = False) -> None:
        """Another word to a session that is ending already: the sooner of the two counts, and leaving over `held`."""
        if self._ending:
            self._held = self._held and held
            self.leaving_now = self.leaving_now or when == "now"
            self.post(LeaveRequest(when))
            self._listener.on_leaving()

    async def end(self, when: Literal["after_round", "now"], *, held: bool = False) -> None:
        """Leave, with `held` only until the limits let it run again; wait until all is closed. Safe to repeat."""
        task = self._task
        if task is None:
            return
        self._ending, self._held, self.leaving_now = True, held, when == "now"
        try:
            self._listener.on_leaving()
            if self.session is not None:
                self.session.post(LeaveRequest(when))
            else:
                task.cancel()
            await asyncio.wait({task})
            self._task = None
        finally:
            self._ending = self._held = self.leaving_now = False

    async def _run(self, joined: JoinedProject, project: VerifiedManifest) -> None:
        while True:
            try:
                self.session = self._listener.new_session(joined, project)
                await self.session.run()
                return
            except (UserError, OSError) as error:
                log.info("the session ended: %s", error)
                self._listener.on_session_unusable(project, error)
            except Exception:  # Border: a fault in one session must end neither the engine nor the window's link to it.
                report_id = secrets.token_hex(4)
                log.exception("the session failed; report %s", report_id)
                self._listener.on_problem(
                    ProblemCode.INTERNAL,
                    ProblemAction.DISMISS,
                    {"report_id": report_id, "detail": "the session failed"},
                )
            finally:
                self.session = None
                self._listener.on_session_over()
            if self._ending:
                return
            await asyncio.sleep(self._restart_seconds)
