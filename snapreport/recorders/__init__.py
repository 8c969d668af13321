"""Records the running program as a snapshot's dicts; the only room that imports torch."""
