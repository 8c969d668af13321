"""For developers: benchmarks, evals, fuzzing, the simulator of an allocator, and small tools."""
