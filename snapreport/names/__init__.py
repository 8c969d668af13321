"""Shorten or redact names, and list the strings that a file gives away."""
