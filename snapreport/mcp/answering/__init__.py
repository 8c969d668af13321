"""Answers questions about an open recording within a token limit."""
