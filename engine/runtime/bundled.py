"""The projects that come with Potluck, unsigned; a hub's operator signs them by publishing them."""

from importlib import resources

from engine.manifest.parse import parse
from engine.manifest.schema import Manifest


def bundled_manifests() -> list[Manifest]:
    """All of them, by name.

    Raises:
        ManifestError: a shipped file is damaged.
    """
    folder = resources.files("resources") / "manifests"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".json")), key=lambda entry: entry.name)
    return [parse(file.read_bytes()) for file in files]
