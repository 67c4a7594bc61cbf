"""Models from their declared configuration alone: no remote code, no download, no stored weights. torch lives here."""

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn

from engine.core.errors import PeerError
from engine.manifest.architectures import ARCHITECTURES, check_config
from engine.manifest.schema import Initial, Model, Scalar, Tensor

GPT2_WIDTH: Final = 768
GPT2_STD: Final = 0.02

_DROPOUTS: Final = ("resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout")
_NO_TOKENS: Final[Mapping[str, None]] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
_LOCAL_BIASES: Final = ("q_proj.bias", "k_proj.bias")
_RESIDUAL_ENDS: Final = (
    "c_proj.weight",
    "o_proj.weight",
    "down_proj.weight",
    "attention.dense.weight",
    "4h_to_h.weight",
)


class ModelMismatch(PeerError):
    """The manifest declares other tensors than its architecture and configuration have."""


def build_config(architecture: str, config: Mapping[str, Scalar]) -> Any:
    """The `transformers` configuration object: dropout off (work must be recomputable), byte vocabulary without
    special tokens.

    Raises:
        ManifestError: the allow-list refuses the configuration.
    """
    check_config(architecture, config)
    row = ARCHITECTURES[architecture]
    module = importlib.import_module(f"transformers.models.{row.module}.configuration_{row.module}")
    options: dict[str, Any] = {**config, **_NO_TOKENS}
    theta = options.pop("rope_theta", None)
    if theta is not None:
        options["rope_parameters"] = {"rope_type": "default", "rope_theta": float(theta)}
    result = getattr(module, row.config_class)(**options)
    for name in _DROPOUTS:
        if hasattr(result, name):
            setattr(result, name, 0.0)
    result.architectures = [row.model_class]
    return result


def build_module(architecture: str, config: Mapping[str, Scalar]) -> nn.Module:
    """The model on the current default device, with parameters that nothing may depend on.

    Raises:
        ManifestError: as `build_config`.
    """
    settings = build_config(architecture, config)
    row = ARCHITECTURES[architecture]
    module = importlib.import_module(f"transformers.models.{row.module}.modeling_{row.module}")
    settings._attn_implementation = "sdpa"
    result = getattr(module, row.model_class)(settings)
    if not isinstance(result, nn.Module):
        raise TypeError(f"{row.model_class} is not a torch module")
    return result


def build_model(model: Model) -> nn.Module:
    """The declared model on the CPU, after its tensors were compared on the meta device, which allocates nothing.

    Raises:
        ModelMismatch: names, shapes or order differ; names the first tensor that does.
        ManifestError: as `build_config`.
    """
    with torch.device("meta"):
        check_tensors(build_module(model.architecture, model.config), model)
    return build_module(model.architecture, model.config)


def check_tensors(module: nn.Module, model: Model) -> None:
    """Compare the trained parameters (tied ones count once) with the declared tensors.

    Raises:
        ModelMismatch: see `build_model`.
    """
    actual = [(name, tuple(parameter.shape)) for name, parameter in module.named_parameters()]
    declared = [(tensor.name, tensor.shape) for tensor in model.tensors]
    for have, want in zip(actual, declared, strict=False):
        if have != want:
            raise ModelMismatch(
                f"the manifest declares {want[0]} {list(want[1])} where {model.architecture} has "
                f"{have[0]} {list(have[1])}"
            )
    if len(actual) != len(declared):
        raise ModelMismatch(
            f"the manifest declares {len(declared)} tensors, {model.architecture} with this configuration has "
            f"{len(actual)}"
        )


def describe_model(architecture: str, config: Mapping[str, Scalar]) -> tuple[Tensor, ...]:
    """What a publisher puts into a manifest: every parameter with its beginning.

    Matrices get uniform noise of GPT-2's standard deviation, 0.02 at its width of 768 and scaled with
    1/sqrt(width); those that end a residual branch divided by sqrt(2 x layers) (Radford et al. 2019, section 2.3).
    Query and key biases begin at one: under rotary positions their product falls with distance, so that attention
    begins as an average over what is near. In few steps that learns much faster than one over the whole window.

    Raises:
        ManifestError: as `build_config`.
    """
    sizes = check_config(architecture, config)
    std = GPT2_STD * math.sqrt(GPT2_WIDTH / sizes.hidden)
    with torch.device("meta"):
        module = build_module(architecture, config)
    return tuple(
        Tensor(name=name, shape=tuple(parameter.shape), initial=_initial(name, parameter.dim(), std, sizes.layers))
        for name, parameter in module.named_parameters()
    )


def _initial(name: str, dimensions: int, std: float, layers: int) -> Initial:
    if name.endswith(_LOCAL_BIASES):
        return Initial(kind="ones")
    if dimensions < 2:
        return Initial(kind="zeros" if name.endswith("bias") else "ones")
    if name.endswith(_RESIDUAL_ENDS):
        std /= math.sqrt(2 * layers)
    return Initial(kind="uniform", bound=round(math.sqrt(3) * std, 6))


def cached_call(module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """From further token ids [1, count] to their logits [1, count, vocabulary], remembering those before."""
    from transformers.cache_utils import DynamicCache  # not needed to train

    # The argument got a new name within major version 5.
    name = "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"
    cache = DynamicCache()

    def further(token_ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = module(input_ids=token_ids, use_cache=True, **{name: cache}).logits
        return logits

    return further


class FlatParameters:
    """A module's parameters as views into one float32 vector of shape [parameter_count], in the manifest's order."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        module.to(device=device, dtype=torch.float32)
        parameters = [parameter for _, parameter in module.named_parameters()]
        count = sum(parameter.numel() for parameter in parameters)
        self.values = torch.zeros(count, dtype=torch.float32, device=device)
        self.gradients = torch.zeros(count, dtype=torch.float32, device=device)
        begin = 0
        for parameter in parameters:
            end = begin + parameter.numel()
            parameter.data = self.values[begin:end].view(parameter.shape)
            parameter.grad = self.gradients[begin:end].view(parameter.shape)
            begin = end

    @property
    def count(self) -> int:
        """Elements of the vector."""
        return self.values.numel()
