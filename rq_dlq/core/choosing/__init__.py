"""Choosing messages: reading and counting them, and the verbs that change them."""
