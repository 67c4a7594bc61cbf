"""How the hub says no: a code that programs read and a detail that people read."""

from http import HTTPStatus
from typing import Final

from engine.core.errors import PeerError

_STATUS: Final = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "bad_manifest": HTTPStatus.BAD_REQUEST,
    "bad_signature": HTTPStatus.FORBIDDEN,
    "not_allowed": HTTPStatus.FORBIDDEN,
    "not_found": HTTPStatus.NOT_FOUND,
    "unknown_project": HTTPStatus.NOT_FOUND,
    "timeout": HTTPStatus.REQUEST_TIMEOUT,
    "name_taken": HTTPStatus.CONFLICT,
    "stale": HTTPStatus.CONFLICT,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "unsupported": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "rate_limited": HTTPStatus.TOO_MANY_REQUESTS,
    "full": HTTPStatus.INSUFFICIENT_STORAGE,
    "storage": HTTPStatus.SERVICE_UNAVAILABLE,
    "overloaded": HTTPStatus.SERVICE_UNAVAILABLE,
}


class Refusal(PeerError):
    """A call is refused. `code` is a key of the table above."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = _STATUS[code]
