"""Cancelling a message, even a leased one."""
