"""The running program -> a snapshot's dicts: the only room that imports torch."""
