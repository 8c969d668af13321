"""Recordings for agents: a Model Context Protocol server on top of ``api``."""
