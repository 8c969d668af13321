"""Reports as Markdown, short enough for an issue comment."""
