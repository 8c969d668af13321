"""What a CUDA run would allocate, told on a machine that has no GPU."""
