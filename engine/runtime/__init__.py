"""Composition root: the one place where the parts of the engine meet."""
