"""Potluck's window: a mirror of the engine's state with buttons; of the engine it imports `engine.contract` only."""
