"""What people are told: where a message is and why, all queues at one look, what was done."""
