"""The problem cards: one for each thing that is wrong, newest first, until dismissed or mended."""

import errno
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from engine.checkpoints.errors import CheckpointError
from engine.contract.reasons import Problem, ProblemAction, ProblemCode, Reason, ReasonCode, Scalar
from engine.core.errors import UserError

MAX_PROBLEMS: Final = 20
LASTING: Final = frozenset({ProblemCode.NO_KEYRING})
"""Not an event but a fact about this computer: once dismissed, not shown again."""
_VOLATILE: Final = frozenset({"detail", "restarts", "report_id"})
"""Parameters that differ from one time to the next without making it another problem."""


class ProblemBoard:
    """What is shown now."""

    def __init__(self) -> None:
        self._problems: dict[str, Problem] = {}
        self._dismissed: set[str] = set()

    def add(self, code: ProblemCode, action: ProblemAction, params: dict[str, Scalar], now: float) -> Problem:
        """Show a card, or bring the one that is there up to date; not if it was dismissed for good."""
        problem = Problem(problem_id=problem_id(code, params), code=code, action=action, at=now, params=params)
        if problem.problem_id in self._dismissed:
            return problem
        self._problems.pop(problem.problem_id, None)
        self._problems[problem.problem_id] = problem
        while len(self._problems) > MAX_PROBLEMS:
            self._problems.pop(next(iter(self._problems)))
        return problem

    def remove(self, problem_id: str) -> None:
        """Take a card away, if it is there."""
        self._problems.pop(problem_id, None)

    def dismiss(self, problem_id: str) -> bool:
        """The user takes a card away; whether that is for good, and to be remembered."""
        self.remove(problem_id)
        lasting = any(problem_id.startswith(f"{code.value}-") for code in LASTING)
        if lasting:
            self._dismissed.add(problem_id)
        return lasting

    def mend(self, code: ProblemCode) -> bool:
        """Take away all cards of a kind; whether there was one."""
        gone = [key for key, problem in self._problems.items() if problem.code == code]
        for key in gone:
            del self._problems[key]
        return bool(gone)

    def shown(self) -> tuple[Problem, ...]:
        """Newest first."""
        return tuple(reversed(self._problems.values()))


def problem_id(code: ProblemCode, params: dict[str, Scalar]) -> str:
    """The same for the same code and circumstances."""
    steady = sorted((name, str(value)) for name, value in params.items() if name not in _VOLATILE)
    digest = hashlib.sha256(msgspec.json.encode(steady)).hexdigest()[:12]
    return f"{code.value}-{digest}"


@dataclass(frozen=True, slots=True)
class FolderTrouble:
    """Why a project's folder cannot be used: as a card, and as the reason of the state."""

    code: ProblemCode
    params: dict[str, Scalar]
    reason: Reason


def folder_trouble(error: UserError | OSError, folder: Path) -> FolderTrouble:
    """In words for users: the system's sentence, without its number."""
    cause = error if isinstance(error, OSError) else error.__cause__
    path = str(folder)
    if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = Reason(code=ReasonCode.DISK_FULL, params={"path": path})
        return FolderTrouble(ProblemCode.FOLDER_DISK_FULL, {"path": path}, reason)
    if isinstance(error, CheckpointError):
        detail = error.reason
    else:
        detail = error.sentence if isinstance(error, UserError) else error.strerror or "it cannot be used"
    reason = Reason(code=ReasonCode.STORE_UNWRITABLE, params={"path": path})
    return FolderTrouble(ProblemCode.FOLDER_UNUSABLE, {"path": path, "detail": detail[:200]}, reason)
