"""What commands print: results, errors, notes and progress."""
