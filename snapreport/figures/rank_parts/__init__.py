"""What a run keeps of one rank: its curves in cells, and what held its peak."""
