"""Maintenance: what is due in any queue, done in small steps."""
