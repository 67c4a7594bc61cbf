"""The web pages as text: templates, numbers in words, and the policy that keeps scripts out."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from engine.contract.version import PRODUCT_VERSION
from engine.hub.protocol import Board
from engine.manifest.parse import parameter_count
from engine.manifest.verify import VerifiedManifest

_TEMPLATES_DIR: Final = Path(__file__).parent / "templates"
_SLICES: Final = (
    "M13.40 16.76 L13.40 5.05 A12.5 12.5 0 0 0 2.54 21.14 Z "
    "M14.27 18.78 L3.37 23.18 A12.5 12.5 0 0 0 23.02 26.65 Z "
    "M16.65 17.96 L24.49 25.01 A12.5 12.5 0 0 0 26.68 14.70 Z"
)
_LIFTED_SLICE: Final = "M18.07 12.59 L28.47 9.21 A12.5 12.5 0 0 0 18.07 1.65 Z"
_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    f'<path d="{_SLICES}" fill="#A8431D"/><path d="{_LIFTED_SLICE}" fill="#0B6A66"/></svg>'
)
_SHORT_ID_CHARS: Final = 8
_SCALES: Final = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (10**3, "thousand"))


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A project as the pages show it."""

    project_id: str
    name: str
    title: str
    summary: str
    publisher: str
    publisher_id: str
    licence: str
    data_summary: str
    architecture: str
    parameter_count: int
    peers_now: int
    tokens_verified: int


def view_of(verified: VerifiedManifest, peers_now: int, tokens_verified: int) -> ProjectView:
    """What the pages say of a project."""
    manifest = verified.manifest
    return ProjectView(
        project_id=verified.project_id,
        name=manifest.name,
        title=manifest.title,
        summary=manifest.summary,
        publisher=manifest.publisher,
        publisher_id=verified.publisher_id,
        licence=manifest.licence,
        data_summary=manifest.data_summary,
        architecture=manifest.model.architecture,
        parameter_count=parameter_count(manifest),
        peers_now=peers_now,
        tokens_verified=tokens_verified,
    )


class Pages:
    """Renders every page of one hub. Everything that comes from outside is escaped by the templates."""

    def __init__(self, hub_name: str) -> None:
        css = (_TEMPLATES_DIR / "style.css").read_text("utf-8")
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_TEMPLATES_DIR),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(exact=exact, rounded=rounded, short=short)
        self._environment.globals.update(
            hub_name=hub_name,
            version=PRODUCT_VERSION,
            css=Markup(css),  # noqa: S704 (our own file)
            icon=quote(_ICON),
            slices=_SLICES,
            lifted_slice=_LIFTED_SLICE,
        )
        digest = base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii")
        self.content_security_policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    def index(self, projects: Sequence[ProjectView]) -> str:
        """All projects."""
        return self._environment.get_template("index.html").render(projects=projects)

    def project(self, project: ProjectView, board: Board, link: str, older: Sequence[str]) -> str:
        """One project; `older` are the ids of earlier versions under the same name."""
        template = self._environment.get_template("project.html")
        return template.render(project=project, board=board, join_link=link, older=older)

    def error(self, heading: str, detail: str) -> str:
        """What went wrong and where to go."""
        return self._environment.get_template("error.html").render(heading=heading, detail=detail)


def exact(value: int) -> str:
    """1234567 as "1,234,567"."""
    return f"{value:,}"


def rounded(value: int) -> str:
    """1234567 as "1.2 million"."""
    for size, word in _SCALES:
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + f" {word}"
    return str(value)


def short(peer_id: str) -> str:
    """The first characters of an id: enough to tell two apart on a page."""
    return peer_id[:_SHORT_ID_CHARS]
