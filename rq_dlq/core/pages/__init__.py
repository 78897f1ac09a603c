"""Reading messages in their places, page by page, while consumers keep running."""
