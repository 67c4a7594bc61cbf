"""Errors that cross the control link."""

from enum import StrEnum

import msgspec

from engine.contract.reasons import Scalar


class ErrorCode(StrEnum):
    """What went wrong with a request; faces translate these."""

    BAD_REQUEST = "bad_request"  # detail
    UNKNOWN_METHOD = "unknown_method"  # method
    BAD_TOKEN = "bad_token"  # noqa: S105 (a code, not a secret)
    VERSION_MISMATCH = "version_mismatch"  # engine, face
    UNKNOWN_PROJECT = "unknown_project"  # project
    BAD_SETTING = "bad_setting"  # name, detail
    BAD_LINK = "bad_link"  # detail
    HUB_UNREACHABLE = "hub_unreachable"  # url, detail
    PROJECT_UNUSABLE = "project_unusable"  # detail
    NO_PROJECT = "no_project"
    INTERNAL = "internal"  # report_id


class ControlError(Exception):
    """A request was refused. Carries the code and its parameters, not prose."""

    def __init__(self, code: ErrorCode, **params: Scalar) -> None:
        super().__init__(f"{code}: {params}" if params else str(code))
        self.code = code
        self.params: dict[str, Scalar] = params


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """A `ControlError` on the link."""

    code: ErrorCode
    params: dict[str, Scalar] = {}
