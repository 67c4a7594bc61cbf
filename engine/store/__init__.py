"""What this computer remembers between starts: one SQLite database for each profile. Spec: docs/specs/store.md."""
