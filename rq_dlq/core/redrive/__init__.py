"""Redrives: dead letters move back to their queue, in one or several steps, checked by their outcomes."""
