import math

from engine.manifest.parse import parameter_count, parse
from engine.training.bundled import MANIFEST_FILE, manifest_text, pocket_python
from engine.training.models import build_model


def test_the_committed_file_is_what_the_builder_makes() -> None:
    assert MANIFEST_FILE.read_bytes() == manifest_text(), "run `python -m engine.training.bundled`"


def test_the_committed_file_passes_every_check_and_builds_its_model() -> None:
    manifest = parse(MANIFEST_FILE.read_bytes())
    assert manifest == pocket_python()
    module = build_model(manifest.model)
    assert sum(parameter.numel() for parameter in module.parameters()) == parameter_count(manifest)


def test_it_is_small_enough_for_a_first_impression() -> None:
    manifest = pocket_python()
    assert 200_000 < parameter_count(manifest) < 500_000
    assert manifest.training.minimum_peers == 2


def test_it_begins_near_a_uniform_guess() -> None:
    """Noise of the declared bounds gives logits so small that the first loss is close to ln 256."""
    import torch

    manifest = pocket_python()
    module = build_model(manifest.model).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter, tensor in zip(module.parameters(), manifest.model.tensors, strict=True):
            if tensor.initial.kind == "uniform":
                parameter.uniform_(-tensor.initial.bound, tensor.initial.bound, generator=generator)
            else:
                parameter.fill_(1.0 if tensor.initial.kind == "ones" else 0.0)
        tokens = torch.randint(0, 256, (4, 65), generator=generator)
        loss = torch.nn.functional.cross_entropy(
            module(input_ids=tokens[:, :-1]).logits.flatten(0, 1), tokens[:, 1:].flatten()
        )
    assert abs(loss.item() - math.log(256)) < 0.5
