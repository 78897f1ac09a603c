"""Dead letters: what they tell, where they are, under which names, and for how long."""
