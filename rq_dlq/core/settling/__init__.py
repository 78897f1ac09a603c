"""Settling deliveries: ack, nack, poison, release, extend."""
