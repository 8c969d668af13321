"""Histories in the forms that other tools read: one module for each format."""
