"""What stands in Redis reads as it did, and two forms of it get along on one queue."""
