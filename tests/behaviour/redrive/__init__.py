"""The way back of dead letters."""
