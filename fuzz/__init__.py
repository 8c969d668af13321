"""Look for files that crash a reader, led by what of the code they reach: ``make fuzz``."""
