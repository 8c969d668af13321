"""SQL questions to a bundle, in a process that can be stopped."""
