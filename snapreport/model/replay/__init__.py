"""Types for the results of replays through the model of the allocator."""
