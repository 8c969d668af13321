"""What each allocation is for: steps, passes and roles, told from stacks and lifetimes.

In all modules ``tables`` is the file, and ``history`` one device of it.
"""
