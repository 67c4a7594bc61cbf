"""PURE. Why a kit could not be had, as a code with parameters: the window has the sentence."""

from typing import Final

from engine.contract.reasons import Scalar
from engine.core.errors import UserError

_SENTENCES: Final[dict[str, tuple[str, str]]] = {
    "lock_unusable": ("The list of training kits in this Potluck cannot be used: {detail}.", "Install Potluck again."),
    "no_kit": ("There is no training kit for this computer ({detail}).", "Potluck can show projects, but not train."),
    "no_source": ("No place is known to get the training kit from.", "Connect to a hub, or name a source in Settings."),
    "disk_full": (
        "The training kit needs {needed_gb} GB in {path}; {free_gb} GB are free.",
        "Make room, then try again.",
    ),
    "unwritable": ("{path} cannot be written: {detail}.", "Mend that, then try again."),
    "unreachable": ("The training kit could not be fetched: {detail}.", "Check the connection, then try again."),
    "wrong_hash": (
        "{filename} is not the file that it should be, so it was thrown away.",
        "Try again, or from another source.",
    ),
    "unpack_failed": ("{filename} cannot be unpacked: {detail}.", "Try again."),
    "test_failed": ("The training kit does not run on this computer: {detail}.", "The one before stays in use."),
}


def sentence_of(code: str, params: dict[str, Scalar]) -> str:
    """What a fault says, with what to do."""
    sentence, action = _SENTENCES[code]
    return f"{sentence.format_map(params)} {action}"


class KitFault(UserError):
    """The user's to know: `code` and `params` say what, `retry` whether another try may help."""

    def __init__(self, code: str, params: dict[str, Scalar] | None = None) -> None:
        sentence, action = _SENTENCES[code]
        self.code = code
        self.params: dict[str, Scalar] = params or {}
        super().__init__(sentence.format_map(self.params), action)

    @property
    def retry(self) -> bool:
        """Whether the same may go well another time."""
        return self.code not in ("lock_unusable", "no_kit")
