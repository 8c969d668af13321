"""Compare two recordings, and check a recording against its budget."""
