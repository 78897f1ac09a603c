"""Groups of dead letters by their cause, as the index has them."""
