"""What our processes may use, and the processes that we start."""
