"""Cancelling a message, also one that is in work."""
