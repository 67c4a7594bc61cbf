"""A small internet in network namespaces: homes behind routers of several kinds, and a public side. Needs root."""
