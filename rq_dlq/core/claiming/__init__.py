"""Delivering messages: to a claim, to a loop, from a view."""
