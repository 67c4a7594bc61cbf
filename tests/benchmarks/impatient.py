"""`potluck` that lets a computer count as away after a second, so that fifty trials do not take an hour."""

import sys
from typing import Any, cast

from engine.contract import settings
from engine.runtime.cli import main

cast("dict[str, Any]", settings.BOUNDS)["away_after_seconds"] = (1, 24 * 3600)

if __name__ == "__main__":
    sys.exit(main())
