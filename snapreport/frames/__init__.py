"""What frames and call stacks tell: whose code they are, and what kind of memory it makes."""
