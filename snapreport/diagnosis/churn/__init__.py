"""Memory that is made more often, or kept longer, than needed."""
