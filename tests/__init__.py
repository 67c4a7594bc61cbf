"""The tests; a package so that helpers and benchmarks can be imported by name."""
