"""Call stacks merged into trees."""
