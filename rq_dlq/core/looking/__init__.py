"""What people look at: one message, all queues, what became of messages, who did what."""
