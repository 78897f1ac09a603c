"""Choosing messages: reading and counting them."""
