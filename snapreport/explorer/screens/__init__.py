"""The screens and their keys, as plain lines of text; independent of the terminal."""
