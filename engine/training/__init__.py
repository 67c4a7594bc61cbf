"""The torch worker process and the engine's side of it."""
