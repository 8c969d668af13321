"""The model of PyTorch's caching allocator, and what it says of other settings and other cards."""
