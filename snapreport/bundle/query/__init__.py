"""Runs SQL queries on a bundle, in a process that can be killed."""
