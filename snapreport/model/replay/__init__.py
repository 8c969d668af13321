"""What replays through the model of the allocator came to."""
