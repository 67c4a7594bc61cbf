"""Versions that both ends of the control link compare first."""

from typing import Final

CONTRACT_VERSION: Final = 1
"""Raised when a command, state field or error changes its meaning; additions do not raise it."""

PRODUCT_VERSION: Final = "0.1.0"
