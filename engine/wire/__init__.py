"""PURE peer protocol: messages, frames, limits, connection state."""
