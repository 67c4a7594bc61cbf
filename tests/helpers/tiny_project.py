"""A project whose model has a few thousand parameters, for tests of every part. No torch here."""

from typing import Any

import msgspec

from engine.manifest.schema import Data, Initial, Manifest, Model, Optimizer, Tensor, Training

HIDDEN = 16
INNER = 32

TINY_CONFIG: dict[str, bool | int | float | str] = {
    "vocab_size": 256,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "rope_theta": 100.0,
    "tie_word_embeddings": True,
}


def _noise(name: str, *shape: int) -> Tensor:
    return Tensor(name=name, shape=shape, initial=Initial(kind="uniform", bound=0.25))


def _ones(name: str) -> Tensor:
    return Tensor(name=name, shape=(HIDDEN,), initial=Initial(kind="ones"))


TINY_TENSORS = (
    _noise("model.embed_tokens.weight", 256, HIDDEN),
    _noise("model.layers.0.self_attn.q_proj.weight", HIDDEN, HIDDEN),
    _noise("model.layers.0.self_attn.k_proj.weight", HIDDEN // 2, HIDDEN),
    _noise("model.layers.0.self_attn.v_proj.weight", HIDDEN // 2, HIDDEN),
    _noise("model.layers.0.self_attn.o_proj.weight", HIDDEN, HIDDEN),
    _noise("model.layers.0.mlp.gate_proj.weight", INNER, HIDDEN),
    _noise("model.layers.0.mlp.up_proj.weight", INNER, HIDDEN),
    _noise("model.layers.0.mlp.down_proj.weight", HIDDEN, INNER),
    _ones("model.layers.0.input_layernorm.weight"),
    _ones("model.layers.0.post_attention_layernorm.weight"),
    _ones("model.norm.weight"),
)


def tiny_manifest(**overrides: Any) -> Manifest:
    """A valid manifest; keywords replace whole fields, e.g. `training=tiny_training(target_batch_samples=8)`."""
    fields: dict[str, Any] = {
        "manifest_version": 1,
        "name": "tiny",
        "title": "Tiny",
        "summary": "A model for tests.",
        "publisher": "Tests",
        "licence": "Apache-2.0",
        "data_summary": "Source text of the Python standard library.",
        "prompt": "import ",
        "model": Model(architecture="llama", config=TINY_CONFIG, tensors=TINY_TENSORS, seed=7),
        "data": Data(source="python-stdlib", sequence_length=32, held_out_percent=5, held_out_samples=8),
        "optimizer": tiny_optimizer(),
        "training": tiny_training(),
        "created_at": 1_760_000_000.0,
    }
    return Manifest(**{**fields, **overrides})


def tiny_optimizer(**overrides: Any) -> Optimizer:
    """AdamW with a short warm-up; keywords replace its fields."""
    standard = Optimizer(
        kind="adamw",
        learning_rate=0.01,
        beta1=0.9,
        beta2=0.95,
        epsilon=1e-8,
        weight_decay=0.0,
        warmup_steps=2,
        decay_steps=100,
        final_fraction=0.1,
        clip_norm=1.0,
    )
    return msgspec.structs.replace(standard, **overrides)


def tiny_training(**overrides: Any) -> Training:
    """Small batches; keywords replace its fields."""
    standard = Training(
        strategy="collaborative",
        target_batch_samples=16,
        micro_batch_samples=4,
        evaluate_every_steps=2,
        write_every_steps=2,
        checkpoint_every_steps=2,
        minimum_peers=1,
        max_gradient_norm=1000.0,
    )
    return msgspec.structs.replace(standard, **overrides)
