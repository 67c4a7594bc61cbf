import errno
import os
from pathlib import Path

import pytest
import torch

from engine.checkpoints.export import export_pretrained
from engine.checkpoints.state import SharedState
from engine.core.errors import UserError
from engine.manifest.parse import parameter_count
from engine.training.models import FlatParameters, build_model
from tests.helpers.states import make_state
from tests.helpers.tiny_project import tiny_manifest


def trained_state() -> SharedState:
    return make_state(parameter_count(tiny_manifest()), global_step=12)


def test_from_pretrained_loads_the_same_weights_and_computes_the_same(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    state, out_dir = trained_state(), tmp_path / "model"
    export_pretrained(state, tiny_manifest(), out_dir)
    model = AutoModelForCausalLM.from_pretrained(out_dir, local_files_only=True)
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert flat.numpy().tobytes() == state.weights.tobytes()

    trained = build_model(tiny_manifest().model)
    FlatParameters(trained, torch.device("cpu")).values.copy_(torch.from_numpy(state.weights))
    tokens = torch.arange(64)[None]
    with torch.no_grad():
        assert torch.equal(model(input_ids=tokens).logits, trained(input_ids=tokens).logits)
    assert model.config.eos_token_id is None


def test_the_card_says_what_it_is(tmp_path: Path) -> None:
    export_pretrained(trained_state(), tiny_manifest(), tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    for part in ("# Tiny", "Apache-2.0", "12 optimizer steps", "bytes of UTF-8", bytes(range(32)).hex()):
        assert part in card
    assert not any(path.suffix in (".bin", ".pkl", ".pt") for path in (tmp_path / "model").iterdir())


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    export_pretrained(trained_state(), tiny_manifest(), tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="not an empty folder"):
        export_pretrained(trained_state(), tiny_manifest(), tmp_path / "model")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="not an empty folder"):
        export_pretrained(trained_state(), tiny_manifest(), tmp_path / "file")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, *args: object, **kwargs: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UserError, match="No space left"):
        export_pretrained(trained_state(), tiny_manifest(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_another_model_is_our_fault(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="weights"):
        export_pretrained(make_state(10), tiny_manifest(), tmp_path / "model")
