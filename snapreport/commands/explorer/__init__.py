"""The terminal explorer."""
