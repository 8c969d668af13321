"""The building blocks of screens, and their layout, as plain lines of text."""
