"""The client's side: the protocol, its transports and texts, and which files it may open."""
