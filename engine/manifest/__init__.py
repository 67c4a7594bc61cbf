"""What a project declares, parsed within bounds."""
