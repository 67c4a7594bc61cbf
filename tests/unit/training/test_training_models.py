import math
from typing import Any

import pytest
import torch

from engine.manifest.architectures import ARCHITECTURES
from engine.manifest.errors import ManifestError
from engine.manifest.schema import Initial, Model, Scalar, Tensor
from engine.training.models import FlatParameters, ModelMismatch, build_model, describe_model
from tests.helpers.tiny_project import TINY_CONFIG, TINY_TENSORS, tiny_manifest

CONFIGS: dict[str, dict[str, Scalar]] = {
    "gpt2": {"vocab_size": 256, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 32},
    "llama": {**TINY_CONFIG, "attention_bias": True},
    "qwen3": {**TINY_CONFIG, "head_dim": 4},
    "gpt_neox": {
        **{key: value for key, value in TINY_CONFIG.items() if key != "num_key_value_heads"},
        "hidden_size": 32,
    },
}


def changed(**changes: Any) -> Model:
    fields = {"architecture": "llama", "config": TINY_CONFIG, "tensors": TINY_TENSORS, "seed": 7, **changes}
    return Model(**fields)


def test_the_tiny_project_describes_its_model() -> None:
    described = describe_model("llama", TINY_CONFIG)
    assert [(tensor.name, tensor.shape) for tensor in described] == [(t.name, t.shape) for t in TINY_TENSORS]
    build_model(tiny_manifest().model)


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_every_architecture_of_the_list_can_be_described_built_and_run(architecture: str) -> None:
    config = CONFIGS[architecture]
    tensors = describe_model(architecture, config)
    module = build_model(Model(architecture=architecture, config=config, tensors=tensors, seed=1))
    assert sum(math.prod(tensor.shape) for tensor in tensors) == sum(p.numel() for p in module.parameters())
    logits = module.eval()(input_ids=torch.zeros((2, 8), dtype=torch.long)).logits
    assert logits.shape == (2, 8, 256)
    assert not any(isinstance(child, torch.nn.Dropout) and child.p > 0 for child in module.modules())


def test_the_rotary_base_reaches_the_model() -> None:
    module: Any = build_model(tiny_manifest().model)
    assert module.config.rope_parameters["rope_theta"] == 100.0


def test_beginnings_follow_gpt2() -> None:
    tensors = {tensor.name: tensor.initial for tensor in describe_model("gpt2", CONFIGS["gpt2"])}
    std = 0.02 * math.sqrt(768 / 16)
    assert tensors["transformer.wte.weight"].bound == pytest.approx(math.sqrt(3) * std, abs=1e-6)
    assert tensors["transformer.h.0.mlp.c_proj.weight"].bound == pytest.approx(math.sqrt(3) * std / 2, abs=1e-6)
    assert tensors["transformer.ln_f.weight"] == Initial(kind="ones")
    assert tensors["transformer.ln_f.bias"] == Initial(kind="zeros")


def test_rotary_attention_begins_local() -> None:
    tensors = {tensor.name: tensor.initial for tensor in describe_model("llama", CONFIGS["llama"])}
    assert tensors["model.layers.0.self_attn.q_proj.bias"].kind == "ones"
    assert tensors["model.layers.0.self_attn.v_proj.bias"].kind == "zeros"


def test_a_renamed_reshaped_missing_or_extra_tensor_is_a_mismatch() -> None:
    first, *rest = TINY_TENSORS
    renamed = Tensor(name="model.other", shape=first.shape, initial=first.initial)
    reshaped = Tensor(name=first.name, shape=first.shape[::-1], initial=first.initial)
    for tensors in ((renamed, *rest), (reshaped, *rest)):
        with pytest.raises(ModelMismatch, match="embed_tokens"):
            build_model(changed(tensors=tensors))
    for tensors in (tuple(rest), TINY_TENSORS[:-1], (*TINY_TENSORS, renamed), (rest[0], first, *rest[1:])):
        with pytest.raises(ModelMismatch):
            build_model(changed(tensors=tensors))


def test_a_huge_configuration_with_a_small_list_is_refused_without_being_built() -> None:
    config = {**TINY_CONFIG, "hidden_size": 65_536, "intermediate_size": 65_536, "num_hidden_layers": 2}
    with pytest.raises(ModelMismatch):
        build_model(changed(config=config))


def test_the_allow_list_holds_here_too() -> None:
    with pytest.raises(ManifestError):
        build_model(changed(architecture="bert"))
    with pytest.raises(ManifestError):
        build_model(changed(config={**TINY_CONFIG, "auto_map": "evil"}))


def test_flat_parameters_are_the_models_own_memory() -> None:
    module = build_model(tiny_manifest().model)
    flat = FlatParameters(module, torch.device("cpu"))
    flat.values.copy_(torch.arange(flat.count, dtype=torch.float32))
    begin = 0
    for parameter in module.parameters():
        assert parameter.flatten()[0].item() == begin
        begin += parameter.numel()
    assert begin == flat.count
    parameters = list(module.parameters())
    parameters[0].grad = None
    assert parameters[-1].grad is not None
    parameters[-1].grad.fill_(2.0)
    assert flat.gradients[-1].item() == 2.0
