import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import PeerError
from engine.manifest.errors import ManifestError
from engine.manifest.parse import parameter_count, parse
from engine.manifest.schema import MAX_MANIFEST_BYTES, Data, Initial, Manifest, Model, Tensor
from tests.helpers.tiny_project import TINY_CONFIG, TINY_TENSORS, tiny_manifest, tiny_optimizer, tiny_training


def as_document(manifest: Manifest) -> dict[str, Any]:
    document = msgspec.json.decode(msgspec.json.encode(manifest))
    assert isinstance(document, dict)
    return document


def refused(payload: bytes) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        parse(payload)
    return caught.value


def refused_manifest(**overrides: Any) -> ManifestError:
    return refused(msgspec.json.encode(tiny_manifest(**overrides)))


def with_config(**changes: Any) -> Model:
    return Model(architecture="llama", config={**TINY_CONFIG, **changes}, tensors=TINY_TENSORS, seed=7)


def test_a_good_manifest_survives_the_round_trip() -> None:
    manifest = tiny_manifest()
    assert parse(msgspec.json.encode(manifest)) == manifest


def test_parameter_count_is_the_sum_over_tensors() -> None:
    assert parameter_count(tiny_manifest()) == sum(math.prod(tensor.shape) for tensor in TINY_TENSORS)


def test_size_is_checked_before_anything_else() -> None:
    error = refused(b"{" * (MAX_MANIFEST_BYTES + 1))
    assert error.field == "payload"
    assert str(MAX_MANIFEST_BYTES) in error.detail


def test_deep_nesting_is_refused_and_does_not_crash() -> None:
    assert refused(b"[" * 200_000).field == "payload"


def test_manifest_errors_are_the_peers_fault() -> None:
    assert isinstance(refused(b"nonsense"), PeerError)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("name",), "../../etc/passwd", "name"),
        (("name",), "Tiny", "name"),
        (("manifest_version",), 2, "manifest_version"),
        (("surprise",), 1, "payload"),
        (("model", "tensors", 0, "name"), "../weights", "model.tensors[0].name"),
        (("model", "tensors", 0, "name"), "/etc/shadow", "model.tensors[0].name"),
        (("model", "tensors", 0, "shape"), [0], "model.tensors[0].shape[0]"),
        (("model", "tensors", 0, "shape"), [2**25], "model.tensors[0].shape[0]"),
        (("model", "seed"), -1, "model.seed"),
        (("data", "source"), "http://example.org/data", "data.source"),
        (("data", "sequence_length"), 10**9, "data.sequence_length"),
        (("training", "minimum_peers"), 1000, "training.minimum_peers"),
        (("training", "strategy"), "remote_code", "training.strategy"),
        (("optimizer", "learning_rate"), -1.0, "optimizer.learning_rate"),
    ],
)
def test_out_of_bounds_values_are_refused_by_name(path: tuple[Any, ...], value: Any, field: str) -> None:
    document = as_document(tiny_manifest())
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert refused(msgspec.json.encode(document)).field == field


def test_infinity_cannot_be_smuggled_in() -> None:
    payload = msgspec.json.encode(tiny_manifest()).replace(b"1760000000.0", b"1e999")
    assert b"1e999" in payload
    refused(payload)


def test_a_missing_field_is_named() -> None:
    document = as_document(tiny_manifest())
    del document["licence"]
    assert "licence" in str(refused(msgspec.json.encode(document)))


@pytest.mark.parametrize("character", ["\x1b", "\u202e", "\x00", "\u2028"])
def test_control_and_direction_characters_are_refused(character: str) -> None:
    assert refused_manifest(title=f"Nice{character}title").field == "title"


def test_line_ends_are_allowed_where_text_has_lines() -> None:
    assert parse(msgspec.json.encode(tiny_manifest(summary="One.\nTwo.", prompt="def f():\n\t"))).prompt.endswith("\t")


def test_a_tensor_may_come_once() -> None:
    model = Model(architecture="llama", config=TINY_CONFIG, tensors=(*TINY_TENSORS, TINY_TENSORS[0]), seed=7)
    error = refused_manifest(model=model)
    assert error.field == f"model.tensors[{len(TINY_TENSORS)}].name"


def test_absurd_totals_are_refused() -> None:
    huge = Tensor(name="huge", shape=(2**24, 2**24), initial=Initial(kind="zeros"))
    model = Model(architecture="llama", config=TINY_CONFIG, tensors=(huge,), seed=7)
    assert refused_manifest(model=model).field == "model.tensors[0]"


def test_noise_needs_a_bound() -> None:
    silent = Tensor(name="silent", shape=(4,), initial=Initial(kind="uniform"))
    model = Model(architecture="llama", config=TINY_CONFIG, tensors=(silent,), seed=7)
    assert refused_manifest(model=model).field == "model.tensors[0].initial.bound"


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"training": tiny_training(micro_batch_samples=17)}, "training.micro_batch_samples"),
        ({"optimizer": tiny_optimizer(beta2=1.0)}, "optimizer.beta2"),
        ({"optimizer": tiny_optimizer(warmup_steps=101)}, "optimizer.warmup_steps"),
        ({"model": with_config(vocab_size=50_000)}, "model.config"),
        ({"model": with_config(max_position_embeddings=16)}, "data.sequence_length"),
        ({"title": "  "}, "title"),
    ],
)
def test_values_that_cannot_go_together_are_refused(overrides: dict[str, Any], field: str) -> None:
    assert refused_manifest(**overrides).field == field


def test_a_held_out_set_beyond_memory_is_refused() -> None:
    data = Data(source="python-stdlib", sequence_length=8192, held_out_percent=5, held_out_samples=4096)
    error = refused_manifest(model=with_config(max_position_embeddings=8192), data=data)
    assert error.field == "data.held_out_samples"


def test_a_micro_batch_beyond_any_machine_is_refused() -> None:
    data = Data(source="python-stdlib", sequence_length=8192, held_out_percent=5, held_out_samples=8)
    error = refused_manifest(
        model=with_config(max_position_embeddings=8192, hidden_size=65_536, num_hidden_layers=128),
        data=data,
        training=tiny_training(micro_batch_samples=4096, target_batch_samples=4096),
    )
    assert error.field == "training.micro_batch_samples"
    assert "GiB" in error.detail


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_with_a_manifest_error(payload: bytes) -> None:
    refused(payload)


@given(st.data())
def test_a_damaged_manifest_is_refused_or_still_within_bounds(data: st.DataObject) -> None:
    payload = bytearray(msgspec.json.encode(tiny_manifest()))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        manifest = parse(bytes(payload))
    except ManifestError:
        return
    assert parameter_count(manifest) < 2_000_000_000
    assert manifest.training.micro_batch_samples <= manifest.training.target_batch_samples
