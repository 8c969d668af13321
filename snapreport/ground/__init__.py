"""What every room may use: errors, units, files, safe text. It imports no other room."""
