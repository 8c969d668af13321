"""What a run keeps of one rank: its curves in cells, and who held its peak."""
