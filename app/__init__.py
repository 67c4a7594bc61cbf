"""The desktop window: a mirror of the engine's state, nothing more."""
