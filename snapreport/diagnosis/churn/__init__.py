"""Memory allocated more often, or kept longer, than needed."""
