"""The trained model as an ordinary `transformers` folder. torch is loaded here: call it from a process that may."""

import secrets
import shutil
from pathlib import Path
from typing import Final

import torch
from transformers import PreTrainedModel

from engine.checkpoints.state import SharedState
from engine.core.errors import UserError
from engine.manifest.parse import parameter_count
from engine.manifest.schema import Manifest
from engine.training.models import build_model

_CARD: Final = """---
license: other
license_name: {licence}
library_name: transformers
tags: [potluck]
---

# {title}

{summary}

- **Training:** {steps} optimizer steps of {batch} samples of {length} tokens, by volunteers with Potluck: synchronous
  data-parallel training in which every step averages the gradients of all computers that took part.
- **Model:** {architecture}, {parameters} parameters, float32.
- **Data:** {data_summary}
- **Licence:** {licence}
- **Publisher:** {publisher}
- **Project:** `{project}`

## Use

The vocabulary is the 256 byte values, so there is no tokenizer: token ids are the bytes of UTF-8 text.

```python
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("path/to/this/folder")
ids = torch.tensor([list({prompt!r}.encode())])
out = model.generate(ids, max_new_tokens=80, do_sample=True, temperature=0.8)
print(bytes(out[0].tolist()).decode(errors="replace"))
```

The model stops nowhere by itself (it has no end token), and was trained on windows of {length} bytes.
"""


def export_pretrained(state: SharedState, manifest: Manifest, out_dir: Path) -> None:
    """Write `out_dir` (new, or empty) so that `AutoModelForCausalLM.from_pretrained` loads it: all or nothing.

    Raises:
        UserError: the folder holds something, or cannot be written.
        ModelMismatch: the manifest does not describe its model.
        ValueError: the state is not one of this manifest.
    """
    state.validate(parameter_count(manifest))
    if out_dir.exists() and (not out_dir.is_dir() or any(out_dir.iterdir())):
        raise UserError(f"{out_dir} exists and is not an empty folder.", "Choose another folder.")
    model = _with_weights(state, manifest)
    building = out_dir.with_name(f".{out_dir.name}.{secrets.token_hex(4)}.tmp")
    try:
        building.mkdir(parents=True)
        model.save_pretrained(building)
        (building / "README.md").write_text(_card(state, manifest), encoding="utf-8")
        if out_dir.exists():
            out_dir.rmdir()
        building.replace(out_dir)
    except OSError as error:
        shutil.rmtree(building, ignore_errors=True)
        reason = error.strerror or type(error).__name__
        raise UserError(f"The model could not be written to {out_dir}: {reason}.", "Choose another folder.") from error


def _with_weights(state: SharedState, manifest: Manifest) -> PreTrainedModel:
    module = build_model(manifest.model)
    if not isinstance(module, PreTrainedModel):
        raise TypeError(f"{type(module).__name__} is not a transformers model")
    weights = torch.from_numpy(state.weights.copy())
    begin = 0
    with torch.no_grad():
        for _, parameter in module.named_parameters():
            end = begin + parameter.numel()
            parameter.copy_(weights[begin:end].view(parameter.shape))
            begin = end
    return module


def _card(state: SharedState, manifest: Manifest) -> str:
    return _CARD.format(
        title=manifest.title,
        summary=manifest.summary,
        steps=state.global_step,
        batch=manifest.training.target_batch_samples,
        length=manifest.data.sequence_length,
        architecture=manifest.model.architecture,
        parameters=f"{state.parameter_count:,}",
        data_summary=manifest.data_summary,
        licence=manifest.licence,
        publisher=manifest.publisher,
        project=state.manifest_hash.hex(),
        prompt=manifest.prompt or "import ",
    )
