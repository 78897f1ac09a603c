"""Gathers: a message that becomes due when all of others have ended."""
