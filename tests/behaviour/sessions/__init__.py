"""Many messages that take effect together, or not at all."""
