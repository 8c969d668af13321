"""What each screen shows and what its keys do, as plain lines of text; it knows no terminal."""
