"""Files in stores: paths to them, copies of them, and what their library says."""
