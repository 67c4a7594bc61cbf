"""The three kinds of error. Anything else that is raised is a fault of ours."""


class UserError(Exception):
    """The user's to mend: one sentence that says what and where, and one action. Never shown with a traceback."""

    def __init__(self, sentence: str, action: str = "") -> None:
        super().__init__(f"{sentence} {action}".strip())
        self.sentence = sentence
        self.action = action


class PeerError(Exception):
    """Another computer's (or the hub's) fault: log it, refuse what it sent, go on."""
