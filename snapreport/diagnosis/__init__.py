"""From figures to findings: what went wrong, whether the recording can be trusted, what to do.

In all modules ``tables`` is the file's history, ``history`` that of one device, and ``device`` that
device's figures.
"""
