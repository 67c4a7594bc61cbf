"""What a `HubClient` reports. All are the hub's (or the line's) fault: log, tell the user, go on without it."""

from engine.core.errors import PeerError


class HubError(PeerError):
    """A call to a hub failed. `url` is the address asked, `detail` says what happened."""

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(f"{url}: {detail}")
        self.url = url
        self.detail = detail


class HubUnreachable(HubError):
    """Nobody answered in time, or the hub said that it cannot serve now (5xx). Worth another try later."""


class HubNonsense(HubError):
    """Something answered that does not speak as a hub does: not JSON, wrong types, too long, a redirect."""


class HubRefused(HubError):
    """The hub understood and said no; `code` is one of docs/specs/hub.md."""

    def __init__(self, url: str, code: str, detail: str) -> None:
        super().__init__(url, f"{detail} ({code})" if detail else code)
        self.code = code
