"""Synchronous large-batch training: gradients gather until the group has the target batch (DeDLOC)."""
