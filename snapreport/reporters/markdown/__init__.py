"""Reports as Markdown that fits into an issue."""
