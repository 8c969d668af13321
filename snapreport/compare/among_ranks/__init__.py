"""The ranks of one run beside each other: groups, odd ranks, and why; and two runs likewise."""
