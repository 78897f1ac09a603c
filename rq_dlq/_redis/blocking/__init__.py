"""Runs steps, blocking: made from `awaiting`."""
