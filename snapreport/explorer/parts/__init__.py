"""The building blocks of screens, as plain lines of text."""
