"""Measurements of the whole: `make bench-NAME` ends with one JSON line of figures and goals."""
