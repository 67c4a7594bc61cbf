import asyncio
import sys

import pytest

pytestmark = pytest.mark.integration

CHILD = """
import asyncio, resource, sys
from pathlib import Path
from engine.core.errors import UserError
from engine.store.service import open_store

async def main():
    try:
        await open_store(Path(sys.argv[1]), 0.0)
    except UserError as error:
        print(error.sentence, error.action)

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
asyncio.run(main())
"""


@pytest.mark.parametrize("room_bytes", [0, 4096, 20_000])
async def test_a_disk_without_room_is_named_at_the_start(tmp_path, room_bytes):
    """The system refuses to let any file grow beyond the room: what a full disk looks like from inside."""
    path = tmp_path / "potluck.db"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(path), str(room_bytes), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    async with asyncio.timeout(20):
        said = (await child.stdout.read()).decode()
        assert await child.wait() == 0
    assert said.startswith(f"Potluck cannot use its records in {path}: ")
    assert "Free some space" in said
