"""Decides how much this computer may do for others, and why."""
