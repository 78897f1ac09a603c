"""Messages with a key or a dependency: lanes, their seats, rates, and outages."""
