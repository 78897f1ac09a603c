"""Lanes of a queue, which are all messages of one key: how long they are, and who holds their seats."""
