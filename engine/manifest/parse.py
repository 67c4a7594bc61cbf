"""From untrusted bytes to a `Manifest` that is safe to act on: size first, then types and bounds, then meaning."""

import math
import unicodedata
from typing import Final

import msgspec

from engine.manifest.architectures import Dimensions, check_config
from engine.manifest.errors import ManifestError
from engine.manifest.schema import MAX_MANIFEST_BYTES, MAX_PARAMETERS, Manifest

BYTE_VOCABULARY: Final = 256
MAX_ACTIVATION_BYTES: Final = 64 * 1024**3
"""More than a micro-batch of any machine that volunteers could need."""

MAX_SAMPLE_BYTES: Final = 16 * 1024 * 1024
_FLOAT_BYTES: Final = 4
_CONTROL_CATEGORIES: Final = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def parse(payload: bytes) -> Manifest:
    """Read a manifest's JSON.

    Raises:
        ManifestError: it is too large, not JSON, has unknown or missing fields, or says something that cannot be
            or that this program does not allow. Names the field.
    """
    if len(payload) > MAX_MANIFEST_BYTES:
        raise ManifestError("payload", f"{len(payload)} bytes, at most {MAX_MANIFEST_BYTES}")
    try:
        manifest = msgspec.json.decode(payload, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _named(str(error)) from error
    check(manifest)
    return manifest


def parameter_count(manifest: Manifest) -> int:
    """Elements of all tensors together: the length of the flat vectors."""
    return sum(math.prod(tensor.shape) for tensor in manifest.model.tensors)


def check(manifest: Manifest) -> None:
    """What the types cannot say.

    Raises:
        ManifestError: see `parse`.
    """
    _check_words(manifest)
    _check_tensors(manifest)
    sizes = check_config(manifest.model.architecture, manifest.model.config)
    _check_data(manifest, sizes)
    _check_optimizer(manifest)
    _check_memory(manifest, sizes)


def _named(text: str) -> ManifestError:
    """msgspec ends its sentences with "- at `$.path`": turn that into the field's name."""
    detail, _, place = text.partition(" - at `")
    field = place.rstrip("`").removeprefix("$").removeprefix(".")
    return ManifestError(field[:120] or "payload", detail[:200])


def _check_words(manifest: Manifest) -> None:
    """Words end up in windows, terminals and web pages: no control or direction characters."""
    for field in ("title", "summary", "publisher", "licence", "data_summary", "prompt"):
        allowed = "\n\t" if field in ("summary", "data_summary", "prompt") else ""
        for character in getattr(manifest, field):
            if unicodedata.category(character) in _CONTROL_CATEGORIES and character not in allowed:
                raise ManifestError(field, f"holds the control character U+{ord(character):04X}")
    if not manifest.title.strip():
        raise ManifestError("title", "is empty")
    if not math.isfinite(manifest.created_at):
        raise ManifestError("created_at", "is not finite")


def _check_tensors(manifest: Manifest) -> None:
    seen: set[str] = set()
    total = 0
    for index, tensor in enumerate(manifest.model.tensors):
        field = f"model.tensors[{index}]"
        if tensor.name in seen:
            raise ManifestError(f"{field}.name", f"{tensor.name!r} comes twice")
        seen.add(tensor.name)
        if tensor.initial.kind == "uniform" and tensor.initial.bound <= 0.0:
            raise ManifestError(f"{field}.initial.bound", "must be above 0 for uniform noise")
        total += math.prod(tensor.shape)
        if total > MAX_PARAMETERS:
            raise ManifestError(field, f"brings the model above {MAX_PARAMETERS} parameters")


def _check_data(manifest: Manifest, sizes: Dimensions) -> None:
    training, data = manifest.training, manifest.data
    if training.micro_batch_samples > training.target_batch_samples:
        raise ManifestError("training.micro_batch_samples", "is more than training.target_batch_samples")
    if data.sequence_length > sizes.positions:
        raise ManifestError("data.sequence_length", f"is more than the model's {sizes.positions} positions")
    if sizes.vocabulary != BYTE_VOCABULARY:
        raise ManifestError("model.config", f"{data.source} gives bytes: the vocabulary must be {BYTE_VOCABULARY}")
    if data.held_out_samples * data.sequence_length > MAX_SAMPLE_BYTES:
        raise ManifestError("data.held_out_samples", f"with the sequence length asks for over {MAX_SAMPLE_BYTES} bytes")


def _check_optimizer(manifest: Manifest) -> None:
    optimizer = manifest.optimizer
    for field in ("beta1", "beta2"):
        if getattr(optimizer, field) >= 1.0:
            raise ManifestError(f"optimizer.{field}", "must be below 1")
    if optimizer.warmup_steps > optimizer.decay_steps:
        raise ManifestError("optimizer.warmup_steps", "is more than optimizer.decay_steps")


def activation_bytes(manifest: Manifest, sizes: Dimensions) -> int:
    """Roughly what one micro-batch keeps for its backward pass, in float32, with attention scores stored."""
    samples, length = manifest.training.micro_batch_samples, manifest.data.sequence_length
    per_layer = 16 * sizes.hidden + 4 * sizes.inner + 2 * sizes.heads * length
    return samples * length * (3 * sizes.vocabulary + sizes.layers * per_layer) * _FLOAT_BYTES


def _check_memory(manifest: Manifest, sizes: Dimensions) -> None:
    needed = activation_bytes(manifest, sizes)
    if needed > MAX_ACTIVATION_BYTES:
        gibibytes = needed / 1024**3
        raise ManifestError("training.micro_batch_samples", f"a micro-batch would take about {gibibytes:.0f} GiB")
