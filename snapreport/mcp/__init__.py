"""Recordings for agents: a server of the Model Context Protocol over what ``api`` answers."""
