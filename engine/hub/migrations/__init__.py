"""Numbered revisions of the hub's tables, run by `engine.hub.upgrade`."""
