"""What becomes of a delivery: ack, nack, release, and when a failed message comes back."""
