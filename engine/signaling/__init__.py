"""Introductions between peers: a PURE offer and answer machine, and the rooms that carry its envelopes."""
