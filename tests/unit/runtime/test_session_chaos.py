"""Whatever befalls the peers, in any order: afterwards they train together again, on one model, with sound books."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ledger.accounting import CreditState, RejectReason, tally
from engine.runtime.session_events import Limits
from tests.helpers.run_session import Swarm, project
from tests.helpers.virtual_time import virtual_time

PEERS = 4
MISHAPS = (
    "isolate",
    "rejoin",
    "cut",
    "mute",
    "heal",
    "kill worker",
    "hang worker",
    "wake worker",
    "spoil",
    "pause",
    "resume",
    "kill",
    "return",
)

mishaps = st.lists(
    st.tuples(
        st.sampled_from(MISHAPS),
        st.integers(0, PEERS - 1),
        st.integers(0, PEERS - 1),
        st.sampled_from([0.0, 0.03, 0.11, 0.4, 1.7, 9.0, 31.0]),
    ),
    max_size=8,
)


class World:
    """Does to a swarm what a plan says."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm = swarm
        self.current = swarm.start(*range(1, PEERS + 1), think_seconds=0.5)
        self.muted: set[str] = set()

    async def befall(self, what: str, index: int, other: int) -> None:
        peer, hub = self.current[index], self.swarm.hub
        simple: dict[str, Any] = {
            "isolate": lambda: hub.isolate(peer.peer_id),
            "rejoin": lambda: hub.rejoin(peer.peer_id),
            "mute": lambda: self._mute(peer.peer_id),
            "heal": self._heal,
            "kill worker": peer.trainer.die,
            "hang worker": lambda: setattr(peer.trainer, "answers_freeze", False),
            "spoil": lambda: setattr(peer.trainer, "spoil", float("nan")),
            "pause": lambda: peer.session.post(Limits(duty=0.0, threads=1)),
            "resume": lambda: peer.session.post(Limits(duty=1.0, threads=1)),
        }
        if what in simple:
            simple[what]()
        elif what == "cut" and index != other:
            hub.drop_link(peer.peer_id, self.current[other].peer_id)
        elif what == "wake worker":
            self._wake(index)
        elif what == "kill":
            await peer.cancel()
        elif what == "return" and peer.done:
            self._return(index)

    def _mute(self, peer_id: str) -> None:
        self.muted.add(peer_id)
        self.swarm.hub.mute(peer_id)

    def _heal(self) -> None:
        """A link that lost something does not go on as if nothing had been: it goes down and comes up."""
        for peer_id in self.muted:
            self.swarm.hub.isolate(peer_id)
        self.muted.clear()
        self.swarm.hub.heal()

    def _wake(self, index: int) -> None:
        trainer = self.current[index].trainer
        if not trainer.answers_freeze:
            trainer.answers_freeze = True
            if trainer.owed_freezes:
                trainer.answer_freeze()

    def _return(self, index: int) -> None:
        self.current[index] = self.swarm.add(index + 1, think_seconds=0.5).start()

    def mend(self) -> None:
        """All is well from now on."""
        self._heal()
        for index, peer in enumerate(self.current):
            peer.trainer.spoil = None
            self._wake(index)
            peer.session.post(Limits(duty=1.0, threads=1))
            if peer.done:
                self._return(index)


@pytest.mark.timeout(120)
@settings(max_examples=8)
@given(plan=mishaps)
def test_after_any_mishaps_they_train_on_together(plan: list[tuple[str, int, int, float]]) -> None:
    @virtual_time
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with Swarm(Path(folder), project(checkpoint_every_steps=2)) as swarm:
                world = World(swarm)
                for what, index, other, seconds in plan:
                    await world.befall(what, index, other)
                    await swarm.pass_time(seconds)
                world.mend()
                mended = max(peer.step for peer in swarm.peers)
                await swarm.until(
                    lambda: all(
                        peer.told.committed
                        and peer.told.committed[-1].global_step > mended
                        and peer.told.committed[-1].my_tokens > 0
                        for peer in world.current
                    )
                )
                together = min(peer.step for peer in world.current)
                await swarm.until_step(together + 2, *world.current)
                check_books(swarm, world)
                await swarm.leave_all()

    run()


def check_books(swarm: Swarm, world: World) -> None:
    late = max(swarm.disagreements(), default=0)
    assert late < min(peer.step for peer in world.current)  # forks, if any, are over
    rounds = swarm.committed_rounds()
    receipts = [receipt for peer in swarm.peers for receipt in peer.told.opened_receipts()]
    for row in tally(receipts):
        assert row.reason is RejectReason.NONE
        assert row.state in (CreditState.VERIFIED, CreditState.PENDING)
        assert row.round_id.hex() in rounds
    credited: dict[str, int] = {}
    for row in tally(receipts):
        credited[row.round_id.hex()] = credited.get(row.round_id.hex(), 0) + row.tokens
    assert all(tokens <= rounds[round_id].tokens for round_id, tokens in credited.items())
    for peer in swarm.peers:
        assert {code for code, _, _ in peer.told.problems} == set()
