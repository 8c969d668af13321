"""From figures to findings: what went wrong, whether the recording can be trusted, what to do."""
