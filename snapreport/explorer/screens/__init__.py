"""The screens, their keys, and the desk and panes that show them; independent of the terminal."""
