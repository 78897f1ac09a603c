"""Lanes of a queue, each all messages of one key: how long they are, and what holds their seats."""
