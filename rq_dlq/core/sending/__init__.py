"""Sending messages, and putting exported ones back."""
