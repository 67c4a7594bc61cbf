from typing import Any

import pytest

from engine.manifest.architectures import ARCHITECTURES, Dimensions, check_config
from engine.manifest.errors import ManifestError
from tests.helpers.tiny_project import TINY_CONFIG


def refused(architecture: str, **changes: Any) -> ManifestError:
    config = {key: value for key, value in {**TINY_CONFIG, **changes}.items() if value is not None}
    with pytest.raises(ManifestError) as caught:
        check_config(architecture, config)
    return caught.value


def test_dimensions_are_read_whatever_the_keys_are_called() -> None:
    expected = Dimensions(vocabulary=256, positions=64, hidden=16, layers=1, heads=2, inner=32)
    gpt2 = {"vocab_size": 256, "n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_inner": 32}
    assert check_config("llama", TINY_CONFIG) == expected
    assert check_config("gpt2", gpt2) == expected


def test_an_unknown_architecture_is_refused_and_the_known_ones_are_named() -> None:
    error = refused("evil_model")
    assert error.field == "model.architecture"
    assert all(name in error.detail for name in ARCHITECTURES)


@pytest.mark.parametrize("key", ["auto_map", "_name_or_path", "attn_implementation", "rope_scaling", "torch_dtype"])
def test_keys_that_are_not_listed_are_refused(key: str) -> None:
    assert refused("llama", **{key: "x"}).field == f"model.config.{key}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 0),
        ("hidden_size", 10**6),
        ("hidden_size", "16"),
        ("hidden_size", 16.0),
        ("num_hidden_layers", True),
        ("num_hidden_layers", 129),
        ("rope_theta", 0.0),
        ("rope_theta", float("nan")),
        ("hidden_act", "eval"),
        ("tie_word_embeddings", 1),
    ],
)
def test_values_out_of_bounds_or_of_a_wrong_type_are_refused(key: str, value: Any) -> None:
    assert refused("llama", **{key: value}).field == f"model.config.{key}"


@pytest.mark.parametrize("key", sorted(ARCHITECTURES["llama"].required))
def test_a_missing_key_is_named(key: str) -> None:
    error = refused("llama", **{key: None})
    assert (error.field, error.detail) == (f"model.config.{key}", "is missing")


def test_sizes_must_fit_together() -> None:
    assert refused("llama", hidden_size=15).field == "model.config.hidden_size"
    assert "pairs" in refused("llama", hidden_size=6).detail
    assert refused("llama", num_key_value_heads=3).field == "model.config.num_key_value_heads"


def test_every_row_names_its_own_keys() -> None:
    for row in ARCHITECTURES.values():
        assert row.required <= row.keys.keys()
        assert set(row.names.values()) <= row.required
        assert set(row.names) == set(Dimensions.__dataclass_fields__)
