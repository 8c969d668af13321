"""From figures to findings: what went wrong, whether the recording can be trusted, what to do.

In all modules ``tables`` is the file, ``history`` one device of it, and ``device`` that device's
figures.
"""
