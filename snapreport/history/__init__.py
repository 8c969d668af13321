"""Build the history of each device from a snapshot: pairing, block sizes, segments, stages."""
