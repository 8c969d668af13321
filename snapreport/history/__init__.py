"""A snapshot's columns to the history of each device: pairing, block sizes, segments, stages."""
