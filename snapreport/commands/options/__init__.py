"""What the command line is read with: options that commands share, and their checks."""
