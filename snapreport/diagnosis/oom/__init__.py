"""Why a request for memory failed, what held the memory, and what would free it."""
