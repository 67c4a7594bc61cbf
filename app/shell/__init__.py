"""Window, rail, tray."""
