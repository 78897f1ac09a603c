"""Managing a whole queue: pause, reset, delete."""
