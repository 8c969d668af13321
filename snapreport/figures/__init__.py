"""Figures of a history: curves, call sites, trees, lines, groups, and what is live at a moment."""
