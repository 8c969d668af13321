"""The landing: what the rooms below do, joined into load, convert, render, export, diff, check."""
