"""Runs steps, awaiting: the source of `blocking`."""
