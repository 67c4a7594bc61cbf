"""Receipts and what they add up to."""
