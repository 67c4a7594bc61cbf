"""What depends on the desktop: colours, icons, the single instance, links."""
