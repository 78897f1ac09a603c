"""Handing messages out: to a claim, to a loop, from a view."""
