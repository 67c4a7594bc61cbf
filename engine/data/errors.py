"""What can be wrong with a data source on this computer."""

from engine.core.errors import UserError


class DataUnavailable(UserError):
    """A project's data cannot be read on this computer: says what was looked for, and where."""
