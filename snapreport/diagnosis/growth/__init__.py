"""Memory that grows from step to step of the program."""
