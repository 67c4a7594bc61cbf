"""Sessions that train together: rounds commit, everybody ends with the same bits, and the books add up."""

from pathlib import Path

from tests.helpers.run_session import Swarm
from tests.helpers.virtual_time import virtual_time


@virtual_time
async def test_three_peers_step_together(tmp_path: Path) -> None:
    async with Swarm(tmp_path) as swarm:
        swarm.start(1, 2, 3)
        await swarm.until_step(6)
        assert swarm.disagreements() == []
        await swarm.leave_all()
        print([ (i.global_step, i.committed, i.members, i.tokens, i.seconds, i.detail) for i in swarm.peers[0].told.rounds])
