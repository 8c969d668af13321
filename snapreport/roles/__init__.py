"""What each allocation is for: steps, passes and roles, told from stacks and lifetimes."""
