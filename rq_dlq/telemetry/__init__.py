"""Optional extras that show from outside what queues and workers do."""
