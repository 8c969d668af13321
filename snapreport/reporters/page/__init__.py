"""The report as an HTML page, and what lies in it."""
