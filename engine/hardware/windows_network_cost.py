"""Prints what Windows says the internet connection costs: INetworkCostManager::GetCost (netlistmgr.h).

Run as a program of its own: COM may wait for a service that does not answer. Imports nothing of Potluck.
"""

import ctypes
import sys
import uuid
from typing import Any

NETWORK_LIST_MANAGER = "{DCB00C01-570F-4A9B-8D69-199FDBA5723B}"
COST_MANAGER = "{DCB00008-570F-4A9B-8D69-199FDBA5723B}"
ALL_CONTEXTS = 23  # CLSCTX_ALL
RELEASE, GET_COST = 2, 3  # places in the interface's table: IUnknown has three


def identifier(text: str) -> Any:
    """A GUID as COM wants it."""
    return (ctypes.c_ubyte * 16)(*uuid.UUID(text).bytes_le)


def cost_of(ole32: Any, prototype: Any) -> int | None:
    """The flags of NLM_CONNECTION_COST; None when Windows refuses. `prototype` is ctypes.WINFUNCTYPE."""
    if ole32.CoInitializeEx(None, 0) < 0:
        return None
    manager = ctypes.c_void_p()
    made = ole32.CoCreateInstance(
        identifier(NETWORK_LIST_MANAGER), None, ALL_CONTEXTS, identifier(COST_MANAGER), ctypes.byref(manager)
    )
    if made < 0 or not manager.value:
        return None
    table = ctypes.cast(manager, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))).contents
    cost = ctypes.c_uint32()
    result = ctypes.c_long  # HRESULT: negative for failure
    get_cost = prototype(result, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_void_p)(table[GET_COST])
    failed = get_cost(manager, ctypes.byref(cost), None) < 0
    prototype(ctypes.c_ulong, ctypes.c_void_p)(table[RELEASE])(manager)
    return None if failed else int(cost.value)


def main() -> int:
    """0, and the flags printed; else 1."""
    library, prototype = getattr(ctypes, "WinDLL", None), getattr(ctypes, "WINFUNCTYPE", None)  # on Windows only
    cost = None if library is None else cost_of(library("ole32"), prototype)
    if cost is None:
        return 1
    sys.stdout.write(f"{cost}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
