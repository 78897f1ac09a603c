"""The management command."""
