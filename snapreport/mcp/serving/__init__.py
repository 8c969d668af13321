"""The side towards clients: protocol, transports, guide, tools, and the files they may open."""
