"""The model of PyTorch's caching allocator, and what it predicts for other settings and cards."""
