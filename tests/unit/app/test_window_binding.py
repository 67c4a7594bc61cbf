import sys

from PySide6.QtCore import QObject

CALLS = 1000


def test_the_qt_binding_does_not_use_up_references_to_none() -> None:
    """PySide6 6.12.0 gives one away with every call that returns None; where None can die (Python 3.11), it does."""
    thing = QObject()
    before = sys.getrefcount(None)
    for _ in range(CALLS):
        thing.setObjectName("x")
    assert sys.getrefcount(None) > before - CALLS // 2
