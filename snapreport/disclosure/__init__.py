"""What a report, bundle or snapshot gives away to whoever has the file."""

from snapreport.disclosure.leaks import find_leaks, known_here
from snapreport.disclosure.strings import list_strings

__all__ = ["find_leaks", "known_here", "list_strings"]
