"""The project that comes with Potluck, "Pocket Python". `python -m engine.training.bundled` writes its manifest anew.

Tuned for a first impression: three peers on two cores should see it write Python-like text within minutes. So it is
wide and shallow, its batch is small, its attention begins local, and its learning rate is high.
"""

import sys
from pathlib import Path
from typing import Final

import msgspec

from engine.manifest.schema import Data, Manifest, Model, Optimizer, Scalar, Training
from engine.training.models import describe_model

MANIFEST_FILE: Final = Path(__file__).resolve().parents[2] / "resources" / "manifests" / "pocket-python.json"

_CONFIG: Final[dict[str, Scalar]] = {
    "vocab_size": 256,
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "max_position_embeddings": 256,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 100.0,  # most wave lengths lie within a window of 128 bytes
    "attention_bias": True,
    "tie_word_embeddings": False,
}


def pocket_python() -> Manifest:
    """The manifest, the same on every machine."""
    return Manifest(
        manifest_version=1,
        name="pocket-python",
        title="Pocket Python",
        summary="A very small language model that learns to write Python, byte by byte, from the source text that "
        "comes with every Python. It begins with noise; within minutes it writes words and lines.",
        publisher="Potluck",
        licence="Apache-2.0",
        data_summary="The Python standard library's own source text (PSF License), as found on each computer: nothing "
        "is downloaded. Some modules are held out to measure what was learnt.",
        prompt="def read_file(path):\n",
        model=Model(architecture="llama", config=_CONFIG, tensors=describe_model("llama", _CONFIG), seed=20_250_101),
        data=Data(source="python-stdlib", sequence_length=128, held_out_percent=5, held_out_samples=64),
        optimizer=_optimizer(),
        training=_training(),
        created_at=1_767_225_600.0,
    )


def manifest_text() -> bytes:
    """The committed file's content: indented JSON with a final line end."""
    return msgspec.json.format(msgspec.json.encode(pocket_python()), indent=2) + b"\n"


def _optimizer() -> Optimizer:
    return Optimizer(
        kind="adamw",
        learning_rate=0.005,
        beta1=0.9,
        beta2=0.95,
        epsilon=1e-8,
        weight_decay=0.01,
        warmup_steps=8,
        decay_steps=3000,
        final_fraction=0.1,
        clip_norm=1.0,
    )


def _training() -> Training:
    return Training(
        strategy="collaborative",
        target_batch_samples=96,
        micro_batch_samples=8,
        evaluate_every_steps=5,
        write_every_steps=5,
        checkpoint_every_steps=10,
        minimum_peers=2,
        max_gradient_norm=100.0,
    )


def main() -> int:
    """Write the committed file."""
    MANIFEST_FILE.parent.mkdir(parents=True, exist_ok=True)
    MANIFEST_FILE.write_bytes(manifest_text())
    sys.stderr.write(f"Wrote {MANIFEST_FILE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
