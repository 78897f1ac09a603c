"""What becomes of a delivery: ack, nack, poison, release, extend."""
