"""The problem cards: one for each thing that is wrong, newest first, until dismissed or mended."""

import hashlib
from typing import Final

import msgspec

from engine.contract.reasons import Problem, ProblemAction, ProblemCode, Scalar

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
