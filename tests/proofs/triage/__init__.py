"""From "the dead letters grow" to "fixed and redriven", walked on the command line and in a browser."""
