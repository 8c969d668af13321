"""The memory of graphics cards that people use, and what they call them."""
