"""Compare the ranks of one run (groups, odd ranks, and why), and two runs with each other."""
