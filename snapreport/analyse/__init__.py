"""The sweeps in C, until they have a room of their own."""
