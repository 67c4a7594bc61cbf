"""Project cards from verified manifests. PURE."""

from collections.abc import Callable, Iterable
from typing import Final

from engine.contract.snapshot import Machine, ProjectCard
from engine.hub.client import CatalogueEntry
from engine.manifest.parse import parameter_count

BYTES_PER_PARAMETER: Final = 4 * 7
"""Weights, two moments, gradients, the mean gradient, and the worker's own weights and gradients: float32 each."""

WORKER_BYTES: Final = 450 * 1024 * 1024
"""What torch and the model library take, measured with a small model."""


def cards(
    entries: Iterable[CatalogueEntry], joined: str | None, machine: Machine, fit: Callable[[int], float | None]
) -> tuple[ProjectCard, ...]:
    """One card a project, in the catalogue's order. `fit` tells tokens an hour here for a number of parameters."""
    return tuple(_card(entry, joined, machine, fit) for entry in entries)


def _card(
    entry: CatalogueEntry, joined: str | None, machine: Machine, fit: Callable[[int], float | None]
) -> ProjectCard:
    manifest, count = entry.verified.manifest, parameter_count(entry.verified.manifest)
    needed = WORKER_BYTES + count * BYTES_PER_PARAMETER
    total = machine.memory_total_bytes
    reason = ""
    if total is not None and needed > total:
        reason = f"It needs {needed / 1e9:.1f} GB of memory; this computer has {total / 1e9:.1f} GB."
    return ProjectCard(
        project_id=entry.verified.project_id,
        name=manifest.name,
        title=manifest.title,
        summary=manifest.summary,
        publisher=manifest.publisher,
        licence=manifest.licence,
        data_summary=manifest.data_summary,
        parameter_count=count,
        download_bytes=12 * count,
        memory_needed_bytes=needed,
        peers_now=entry.peers_now,
        tokens_verified=entry.tokens_verified,
        joined=entry.verified.project_id == joined,
        unusable_because=reason,
        tokens_per_hour=fit(count),
    )
