"""What screens are made of, and how they stand together: plain, too."""
