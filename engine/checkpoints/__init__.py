"""The shared state as bytes: on this computer's disk, to another computer, and out to other programs."""
