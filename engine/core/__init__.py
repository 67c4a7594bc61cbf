"""Leaves that everything may use; standard library and platformdirs only."""
