"""The name of the marker, of the fixture and of the option of the pytest plugin."""

MARKER = "gpu_memory"
