"""The window's end of the control link."""
