"""How work is done: calls as values, the steps that generators yield, and the code that runs generators."""
