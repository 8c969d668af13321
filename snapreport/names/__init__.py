"""Names: shortened or taken out, and those that a file gives away."""
