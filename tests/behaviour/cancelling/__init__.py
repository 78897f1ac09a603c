"""Cancelling messages, even in work."""
