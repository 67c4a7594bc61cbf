"""`potluck://join?hub=<url>&project=<64 hex>`: a link on a web page that offers a project. Anyone may write one."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from engine.contract.errors import ControlError, ErrorCode

SCHEME: Final = "potluck"
MAX_LINK_CHARS: Final = 1200  # fits the longest hub address with every character percent-encoded
MAX_HUB_CHARS: Final = 300
PROJECT_ID_CHARS: Final = 64

_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class JoinLink:
    """Join this project of that hub. `hub` is an http(s) address without credentials, query or trailing slash."""

    hub: str
    project: str  # 64 lower-case hex digits


def parse_link(link: str) -> JoinLink:
    """The meaning of a link from outside.

    Raises:
        ControlError: BAD_LINK, with what is wrong in `detail`.
    """
    if len(link) > MAX_LINK_CHARS:
        raise _bad(f"it is longer than {MAX_LINK_CHARS} characters")
    if not link.isascii() or not link.isprintable() or " " in link:
        raise _bad("it has characters that no link has")
    try:
        parts = urlsplit(link)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True, max_num_fields=4)
    except ValueError:
        raise _bad("it cannot be read") from None
    if parts.scheme != SCHEME:
        raise _bad(f"it does not begin with {SCHEME}://")
    if parts.netloc != "join" or parts.path not in ("", "/") or parts.fragment:
        raise _bad("it asks for something other than joining a project")
    values = dict(pairs)
    if len(values) != len(pairs) or set(values) != {"hub", "project"}:
        raise _bad("it must name one hub and one project, and nothing else")
    return JoinLink(hub=_hub_address(values["hub"]), project=_project_id(values["project"]))


def build_link(link: JoinLink) -> str:
    """The text of a link; `parse_link` gives it back.

    Raises:
        ControlError: BAD_LINK, when the hub or the project would not be accepted.
    """
    return f"{SCHEME}://join?" + urlencode({"hub": _hub_address(link.hub), "project": _project_id(link.project)})


def _hub_address(text: str) -> str:
    if len(text) > MAX_HUB_CHARS or not text.isascii() or not text.isprintable() or set(text) & set(' \\"<>'):
        raise _bad("its hub address has characters that no address has")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _bad("its hub address cannot be read") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise _bad("its hub address must begin with http:// or https:// and name a computer")
    if "@" in parts.netloc:
        raise _bad("its hub address carries a name or a password")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise _bad("its hub address has more than a path after the computer's name")
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", ""))


def _project_id(text: str) -> str:
    lower = text.lower()
    if len(lower) != PROJECT_ID_CHARS or not set(lower) <= _HEX:
        raise _bad(f"its project is not {PROJECT_ID_CHARS} hexadecimal digits")
    return lower


def _bad(detail: str) -> ControlError:
    return ControlError(ErrorCode.BAD_LINK, detail=detail)
