"""Engines and programs that share no code with them, over the protocols of docs/specs."""
