"""Redrives: dead letters go back to their queue, at once or step by step, judged by what becomes of them."""
