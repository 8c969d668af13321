"""Recordings of any length and shape to measure with, written as PyTorch writes them."""
