"""Whether a recording can be trusted: what it covers, what it lost, how to record it better."""
