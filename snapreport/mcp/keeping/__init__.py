"""Open recordings, each in a process of its own that can be ended."""
