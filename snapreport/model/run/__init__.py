"""All processes of one program: the facts about each, and the conclusions about all."""
