"""What speaks with clients: the protocol, its doors, its words, and which files it may open."""
