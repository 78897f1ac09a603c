"""Maintenance: the due work of any queue, done in small steps."""
