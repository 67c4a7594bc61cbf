"""The state tree of an engine that has only just begun."""

import os

from engine.contract.reasons import RunState
from engine.contract.snapshot import EngineInfo, EngineState, HubStatus, Status
from engine.contract.version import PRODUCT_VERSION
from engine.identity.vault import LoadedIdentity
from engine.runtime.config import EngineConfig


def initial_state(config: EngineConfig, loaded: LoadedIdentity, now: float) -> EngineState:
    """Nothing joined, nothing read yet."""
    return EngineState(
        engine=EngineInfo(
            version=PRODUCT_VERSION,
            pid=os.getpid(),
            started_at=now,
            peer_id=loaded.identity.peer_id,
            identity_store=str(loaded.store),
            data_dir=str(config.paths.data_dir),
        ),
        status=Status(state=RunState.IDLE, since=now),
        hub=HubStatus(url="", connected=False),
    )
