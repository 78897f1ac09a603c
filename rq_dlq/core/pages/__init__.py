"""Reading messages where they are, page by page, while consumers go on."""
