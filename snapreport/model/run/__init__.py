"""All processes of one program: what is known of each, and what was concluded of them together."""
