"""Measuring ourselves beside the floor, and beside what people have today."""
