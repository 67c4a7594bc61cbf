"""What a training project declares, as frozen types with bounds. Spec: docs/specs/manifest.md.

A manifest travels as a `SignedManifest`; its hash (SHA-256 of the payload bytes) is the project's id everywhere.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

MANIFEST_VERSION: Final = 1
MAX_MANIFEST_BYTES: Final = 512 * 1024
MAX_PARAMETERS: Final = 2_000_000_000
MAX_TENSORS: Final = 4096
SIGNING_CONTEXT: Final = b"potluck manifest v1\n"

Slug: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,39}\Z")]
Line: TypeAlias = Annotated[str, msgspec.Meta(max_length=120)]
Paragraph: TypeAlias = Annotated[str, msgspec.Meta(max_length=2000)]
TensorName: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+){0,15}\Z", max_length=160)
]
Dimension: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
PositiveInt: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Unit: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Scalar: TypeAlias = bool | int | float | Annotated[str, msgspec.Meta(max_length=40)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base: a manifest with a field that this version does not know is refused, not half understood."""


class Initial(Part, frozen=True, kw_only=True):
    """How a tensor begins: the same bits on every machine (integer noise and elementwise arithmetic only)."""

    kind: Literal["zeros", "ones", "uniform"]
    bound: Annotated[float, msgspec.Meta(ge=0.0, le=10.0)] = 0.0  # uniform in [-bound, bound)


class Tensor(Part, frozen=True, kw_only=True):
    """One trained parameter, under the name that `transformers` gives it."""

    name: TensorName
    shape: Annotated[tuple[Dimension, ...], msgspec.Meta(max_length=6)]
    initial: Initial


class Model(Part, frozen=True, kw_only=True):
    """A `transformers` architecture from the allow-list in `architectures.py`, with a bounded configuration."""

    architecture: Annotated[str, msgspec.Meta(max_length=40)]
    config: Annotated[dict[Annotated[str, msgspec.Meta(max_length=60)], Scalar], msgspec.Meta(max_length=60)]
    tensors: Annotated[tuple[Tensor, ...], msgspec.Meta(min_length=1, max_length=MAX_TENSORS)]
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Data(Part, frozen=True, kw_only=True):
    """Where samples come from."""

    source: Literal["python-stdlib"]
    sequence_length: Annotated[int, msgspec.Meta(ge=8, le=8192)]
    held_out_percent: Annotated[int, msgspec.Meta(ge=1, le=50)]
    held_out_samples: Annotated[int, msgspec.Meta(ge=1, le=4096)]


class Optimizer(Part, frozen=True, kw_only=True):
    """AdamW with linear warm-up, then linear decay to `final_fraction` at `decay_steps`."""

    kind: Literal["adamw"]
    learning_rate: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)]
    beta1: Unit
    beta2: Unit
    epsilon: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
    weight_decay: Unit
    warmup_steps: Annotated[int, msgspec.Meta(ge=0, le=10**7)]
    decay_steps: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    final_fraction: Unit
    clip_norm: Annotated[float, msgspec.Meta(gt=0.0, le=1e6)]


class Training(Part, frozen=True, kw_only=True):
    """The batch contract of the `collaborative` strategy."""

    strategy: Literal["collaborative"]
    target_batch_samples: Annotated[int, msgspec.Meta(ge=1, le=10**7)]
    micro_batch_samples: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    evaluate_every_steps: PositiveInt
    write_every_steps: PositiveInt
    checkpoint_every_steps: PositiveInt
    minimum_peers: Annotated[int, msgspec.Meta(ge=1, le=64)]  # fewer members do not begin a round
    max_gradient_norm: Annotated[float, msgspec.Meta(gt=0.0, le=1e9)]  # per sample; more is refused by aggregators
    exchange: Literal["float32", "float16", "int8", "auto"] = "float32"  # how gradients travel


class Manifest(Part, frozen=True, kw_only=True):
    """A whole project."""

    manifest_version: Literal[1]
    name: Slug
    title: Line
    summary: Paragraph
    publisher: Line
    licence: Line
    data_summary: Paragraph
    prompt: Annotated[str, msgspec.Meta(max_length=200)]  # what the model continues in the window
    model: Model
    data: Data
    optimizer: Optimizer
    training: Training
    created_at: Annotated[float, msgspec.Meta(ge=0.0)]


class SignedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The payload (JSON of a Manifest, as bytes; base64 in JSON) with its publisher's key and signature."""

    payload: Annotated[bytes, msgspec.Meta(max_length=MAX_MANIFEST_BYTES)]
    public_key: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]  # over SIGNING_CONTEXT + payload
