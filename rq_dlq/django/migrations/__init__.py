"""The tables of the app."""
