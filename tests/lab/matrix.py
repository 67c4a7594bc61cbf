"""`make lab`: which pairs of home routers connect, which way, how soon. The last line of standard output is JSON.

Which pairs permit a direct path, in the terms of RFC 4787: a port-preserving masquerade behaves as endpoint-independent
mapping (its port stays while nothing else takes it) with address-and-port-dependent filtering, so two of them, also one
behind a carrier's router of the same kind, meet by hole punching. A fully-random masquerade maps each destination anew
(address-and-port-dependent mapping); it meets directly only who needs no hole: a public address. Without UDP only the
relay by TCP is left.
"""

import statistics
import sys
from itertools import combinations_with_replacement
from typing import Final

from tests.benchmarks.report import goal, line, rounded
from tests.lab.cases import Meeting, meet
from tests.lab.topology import Nat, why_unavailable

DIRECT_SECONDS: Final = 2.0
RELAYED_SECONDS: Final = 5.0


def permits_direct(first: Nat, second: Nat) -> bool:
    """Whether the routers of this pair let packets through without a relay."""
    kinds = {first, second}
    if Nat.NO_UDP in kinds:
        return False
    if Nat.RANDOM in kinds:
        return Nat.NONE in kinds
    return True


def main() -> int:
    """Every pair, and two homes with the very same inner addresses."""
    why = why_unavailable()
    if why:
        sys.stderr.write(f"the lab cannot be built here: {why}\n")
        return 1
    cells: dict[str, Meeting] = {}
    for first, second in combinations_with_replacement(Nat, 2):
        cells[f"{first}/{second}"] = tell(f"{first}/{second}", meet(first, second))
    name = f"{Nat.PRESERVING}/{Nat.PRESERVING} same subnet"
    cells[name] = tell(name, meet(Nat.PRESERVING, Nat.PRESERVING, same_subnet=True))
    permitted = {name for name in cells if permits_direct(*map(Nat, name.split(" ")[0].split("/")))}
    direct = [cell.seconds for cell in cells.values() if cell.connected and cell.path != "relayed"]
    relayed = [cell.seconds for cell in cells.values() if cell.connected and cell.path == "relayed"]
    wasted = [name for name in permitted if cells[name].path == "relayed"]
    figures = {
        "cells": {
            name: {"path": cell.path, "seconds": cell.seconds, "direct_permitted": name in permitted}
            for name, cell in cells.items()
        },
        "relayed_though_direct_permitted": wasted,
    }
    goals = {
        "cells_unconnected": goal(float(sum(not cell.connected for cell in cells.values())), 0.5, "below"),
        "relayed_though_direct_permitted": goal(float(len(wasted)), 0.5, "below"),
        "direct_median_seconds": goal(_median(direct), DIRECT_SECONDS, "below"),
        "relayed_median_seconds": goal(_median(relayed), RELAYED_SECONDS, "below"),
    }
    sys.stdout.write(line("lab", figures, goals) + "\n")
    return 0


def tell(name: str, cell: Meeting) -> Meeting:
    """A row of the matrix, as it comes."""
    how = f"{cell.path:9} {cell.seconds:5.2f} s" if cell.connected else "NOT CONNECTED"
    sys.stdout.write(f"{name:50} {how}\n")
    sys.stdout.flush()
    if not cell.connected:
        sys.stderr.write(cell.why_not + "\n")
    return cell


def _median(seconds: list[float]) -> float:
    return rounded(statistics.median(seconds)) if seconds else 1e9


if __name__ == "__main__":
    sys.exit(main())
