"""The reports of workers, and what one passes on to another."""
