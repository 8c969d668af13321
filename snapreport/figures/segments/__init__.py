"""What is in segments, and what keeps them from going back to the driver."""
