"""Questions to an open recording, and answers of a stated size."""
