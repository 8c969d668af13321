"""What every room may use, and what uses none of them: errors, units, files, safe text."""
