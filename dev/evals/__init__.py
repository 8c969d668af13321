"""Questions about recordings with exact answers, and what asks them of agents."""
