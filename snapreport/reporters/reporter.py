"""What every reporter can do."""

from __future__ import annotations

from typing import BinaryIO, Protocol, TypeVar

Subject = TypeVar("Subject", contravariant=True)


class Reporter(Protocol[Subject]):
    """Writes the findings about a file, or a comparison of two, in one format."""

    def render(self, subject: Subject, out: BinaryIO, /) -> None:
        """Write an entire report; ``out`` stays open."""
        ...
