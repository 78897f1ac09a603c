"""Reads for people: one message, all queues, the outcome history, the audit."""
