"""Why a request for memory failed, who held the memory, and what would free it."""
