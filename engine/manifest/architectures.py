"""The `transformers` architectures that a manifest may name, and what it may say about each. No torch here.

Everything not listed is refused: a configuration key that nobody looked at might load code, reach the network or
allocate without bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from engine.manifest.errors import ManifestError
from engine.manifest.schema import Scalar

ACTIVATIONS: Final = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu")


@dataclass(frozen=True, slots=True)
class IntRange:
    """A whole number from `low` to `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class FloatRange:
    """A number from `low` to `high`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


Bound: TypeAlias = IntRange | FloatRange | Choice | Flag

_SIZE: Final = IntRange(1, 65_536)
_LAYERS: Final = IntRange(1, 128)
_HEADS: Final = IntRange(1, 256)
_VOCABULARY: Final = IntRange(2, 1_000_000)
_POSITIONS: Final = IntRange(8, 131_072)
_EPSILON: Final = FloatRange(1e-12, 1e-2)
_ROPE: Final = FloatRange(1.0, 1e9)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes that memory and cost follow from, whatever an architecture calls them."""

    vocabulary: int
    positions: int
    hidden: int
    layers: int
    heads: int
    inner: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """One row of the allow-list. `names` gives this architecture's keys for the fields of `Dimensions`."""

    module: str  # under transformers.models, for both the configuration and the model
    config_class: str
    model_class: str
    keys: Mapping[str, Bound]
    required: frozenset[str]
    names: Mapping[str, str]
    head_width_key: str = ""  # a key that sets the width of a head, so that hidden need not divide by heads


_LLAMA_KEYS: Final[Mapping[str, Bound]] = {
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": _POSITIONS,
    "hidden_size": _SIZE,
    "intermediate_size": _SIZE,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": _HEADS,
    "hidden_act": Choice(ACTIVATIONS),
    "rms_norm_eps": _EPSILON,
    "rope_theta": _ROPE,
    "attention_bias": Flag(),
    "tie_word_embeddings": Flag(),
}
_LLAMA_NAMES: Final = {
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
}
_LLAMA_REQUIRED: Final = frozenset(_LLAMA_NAMES.values()) | {"num_key_value_heads"}

ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "gpt2": Architecture(
        module="gpt2",
        config_class="GPT2Config",
        model_class="GPT2LMHeadModel",
        keys={
            "vocab_size": _VOCABULARY,
            "n_positions": _POSITIONS,
            "n_embd": _SIZE,
            "n_inner": _SIZE,
            "n_layer": _LAYERS,
            "n_head": _HEADS,
            "activation_function": Choice(ACTIVATIONS),
            "layer_norm_epsilon": _EPSILON,
            "tie_word_embeddings": Flag(),
        },
        required=frozenset({"vocab_size", "n_positions", "n_embd", "n_inner", "n_layer", "n_head"}),
        names={
            "vocabulary": "vocab_size",
            "positions": "n_positions",
            "hidden": "n_embd",
            "layers": "n_layer",
            "heads": "n_head",
            "inner": "n_inner",
        },
    ),
    "llama": Architecture(
        module="llama",
        config_class="LlamaConfig",
        model_class="LlamaForCausalLM",
        keys={**_LLAMA_KEYS, "mlp_bias": Flag()},
        required=_LLAMA_REQUIRED,
        names=_LLAMA_NAMES,
    ),
    "qwen3": Architecture(
        module="qwen3",
        config_class="Qwen3Config",
        model_class="Qwen3ForCausalLM",
        keys={**_LLAMA_KEYS, "head_dim": IntRange(2, 1024)},
        required=_LLAMA_REQUIRED | {"head_dim"},
        names=_LLAMA_NAMES,
        head_width_key="head_dim",
    ),
    "gpt_neox": Architecture(
        module="gpt_neox",
        config_class="GPTNeoXConfig",
        model_class="GPTNeoXForCausalLM",
        keys={
            "vocab_size": _VOCABULARY,
            "max_position_embeddings": _POSITIONS,
            "hidden_size": _SIZE,
            "intermediate_size": _SIZE,
            "num_hidden_layers": _LAYERS,
            "num_attention_heads": _HEADS,
            "hidden_act": Choice(ACTIVATIONS),
            "layer_norm_eps": _EPSILON,
            "rope_theta": _ROPE,
            "use_parallel_residual": Flag(),
            "attention_bias": Flag(),
            "tie_word_embeddings": Flag(),
        },
        required=frozenset(_LLAMA_NAMES.values()),
        names=_LLAMA_NAMES,
    ),
}


def check_config(architecture: str, config: Mapping[str, Scalar]) -> Dimensions:
    """Compare a configuration with the allow-list.

    Raises:
        ManifestError: an unknown architecture or key, a missing key, a value of a wrong type or out of bounds, or
            sizes that cannot go together.
    """
    row = ARCHITECTURES.get(architecture)
    if row is None:
        raise ManifestError("model.architecture", f"{architecture!r} is not one of {', '.join(sorted(ARCHITECTURES))}")
    for key, value in config.items():
        bound = row.keys.get(key)
        if bound is None:
            raise ManifestError(f"model.config.{key}", f"is not a setting that {architecture} may have here")
        _check_value(f"model.config.{key}", bound, value)
    missing = sorted(row.required - config.keys())
    if missing:
        raise ManifestError(f"model.config.{missing[0]}", "is missing")
    sizes = Dimensions(**{field: _whole(config[key]) for field, key in row.names.items()})
    _check_heads(row, sizes, config)
    return sizes


def _check_value(field: str, bound: Bound, value: Scalar) -> None:
    match bound:
        case Flag():
            good, wanted = isinstance(value, bool), "true or false"
        case Choice(words):
            good, wanted = isinstance(value, str) and value in words, f"one of {', '.join(words)}"
        case IntRange(low, high):
            good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
            wanted = f"a whole number from {low} to {high}"
        case FloatRange(low, high):
            good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
            wanted = f"a number from {low} to {high}"
    if not good:
        raise ManifestError(field, f"must be {wanted}")


def _whole(value: Scalar) -> int:
    """Only for values that `_check_value` passed as an IntRange."""
    return int(value)


def _check_heads(row: Architecture, sizes: Dimensions, config: Mapping[str, Scalar]) -> None:
    width_key = row.head_width_key
    if width_key in config:
        width = _whole(config[width_key])
    elif sizes.hidden % sizes.heads:
        raise ManifestError(f"model.config.{row.names['hidden']}", f"{sizes.hidden} is not a multiple of {sizes.heads}")
    else:
        width = sizes.hidden // sizes.heads
    if "rope_theta" in row.keys and width % 2:
        raise ManifestError(
            "model.config", f"heads of width {width} cannot carry rotary positions, which come in pairs"
        )
    grouped = config.get("num_key_value_heads")
    if grouped is not None and sizes.heads % _whole(grouped):
        raise ManifestError("model.config.num_key_value_heads", f"does not divide {sizes.heads} attention heads")
