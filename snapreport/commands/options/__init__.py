"""Options that commands share, and their checks."""
