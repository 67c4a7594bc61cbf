"""The training kit: the build of torch and its companions that fits this computer, kept apart from the application."""
