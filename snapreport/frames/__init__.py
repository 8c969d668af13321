"""Classify frames and call stacks: whose code they are, and what kind of memory it makes."""
