"""How anything is done: calls as values, the steps that generators yield, and what runs generators."""
