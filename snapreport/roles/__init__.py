"""Find what each allocation is for: steps, passes and roles, inferred from stacks and lifetimes.

In all modules ``tables`` is the file's history, and ``history`` that of one device.
"""
