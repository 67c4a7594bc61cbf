"""Manifests, receipts and identities for tests of the hub and the ledger: small, valid, the same every time."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.identity.keys import Identity
from engine.ledger.receipts import Receipt
from engine.ledger.signing import members_hash
from engine.manifest.schema import Data, Initial, Manifest, Model, Optimizer, SignedManifest, Tensor, Training
from engine.manifest.verify import seal

SEQUENCE_LENGTH = 32


def identity(number: int) -> Identity:
    """Identity number `number`."""
    return Identity.from_private_bytes(hashlib.sha256(b"test identity %d" % number).digest())


def manifest(**changes: Any) -> Manifest:
    """A valid manifest, with `changes` to its fields."""
    plain = Manifest(
        manifest_version=1,
        name="pocket-python",
        title="Pocket Python",
        summary="A small model of the Python standard library.",
        publisher="The Potluck authors",
        licence="Apache-2.0",
        data_summary="The Python standard library's own source text.",
        prompt="def ",
        model=Model(
            architecture="llama",
            config={
                "vocab_size": 256,
                "max_position_embeddings": 128,
                "hidden_size": 16,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
            },
            tensors=(
                Tensor(name="model.embed_tokens.weight", shape=(256, 16), initial=Initial(kind="uniform", bound=0.1)),
            ),
            seed=1,
        ),
        data=Data(source="python-stdlib", sequence_length=SEQUENCE_LENGTH, held_out_percent=10, held_out_samples=16),
        optimizer=Optimizer(
            kind="adamw",
            learning_rate=1e-3,
            beta1=0.9,
            beta2=0.95,
            epsilon=1e-8,
            weight_decay=0.1,
            warmup_steps=10,
            decay_steps=1000,
            final_fraction=0.1,
            clip_norm=1.0,
        ),
        training=Training(
            strategy="collaborative",
            target_batch_samples=64,
            micro_batch_samples=8,
            evaluate_every_steps=5,
            write_every_steps=5,
            checkpoint_every_steps=5,
            minimum_peers=1,
            max_gradient_norm=1e3,
        ),
        created_at=1_700_000_000.0,
    )
    return msgspec.structs.replace(plain, **changes)


def sealed(signer: Identity, /, **changes: Any) -> SignedManifest:
    """A valid manifest signed by `signer`."""
    return seal(manifest(**changes), signer)


def receipt(aggregator: Identity, contributor: Identity, members: Sequence[Identity], **changes: Any) -> Receipt:
    """A sound receipt about `contributor` in a round of `members`."""
    plain = Receipt(
        manifest_hash=b"\x01" * 32,
        round_id=b"\x02" * 16,
        global_step=7,
        aggregator=aggregator.peer_id,
        contributor=contributor.peer_id,
        tokens=4 * SEQUENCE_LENGTH,
        samples=4,
        member_count=len(members),
        members_hash=members_hash(member.peer_id for member in members),
        committed_at=1_700_000_100.0,
    )
    return msgspec.structs.replace(plain, **changes)
