"""What a report, bundle or snapshot gives away to whoever has the file."""

from snapreport.disclosure.leaks import find_leaks
from snapreport.disclosure.strings import list_strings

__all__ = ["find_leaks", "list_strings"]
