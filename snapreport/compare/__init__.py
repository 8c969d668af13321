"""Two recordings side by side, and a recording against its budget."""
