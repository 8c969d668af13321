"""What the allocator could not use, gave back, or handed out beyond the request."""
