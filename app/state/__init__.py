"""What the window knows: the engine's state, mirrored, and its own few preferences."""
