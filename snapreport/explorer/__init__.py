"""The terminal explorer: a recording looked into where it lies."""
