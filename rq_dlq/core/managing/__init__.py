"""What operators do to a queue as a whole: pause, reset, delete."""
