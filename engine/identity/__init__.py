"""Ed25519 keys, where they live, and signatures."""
