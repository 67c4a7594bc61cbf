"""PURE membership and progress of a run's peers."""
