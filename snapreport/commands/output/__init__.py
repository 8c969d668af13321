"""What commands say and print: results, errors, notes and progress."""
