"""What is wrong with somebody's manifest."""

from engine.core.errors import PeerError


class ManifestError(PeerError):
    """A manifest that this program refuses: `field` says where, `detail` what."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"manifest: {field}: {detail}")
        self.field = field
        self.detail = detail
