"""What the window, the command line and the engine say to each other; the only part that `app` may import."""
