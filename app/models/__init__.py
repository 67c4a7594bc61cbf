"""Qt models over the mirror."""
