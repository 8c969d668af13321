"""A run of many ranks: its page, its Markdown and its text."""
