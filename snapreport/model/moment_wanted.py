"""A moment of a recording, as a user names it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from snapreport.ground.errors import MomentError

CURVES = ("allocated", "requested", "active", "reserved")
"""The curves of a device."""
COUNTED = CURVES[:3]
"""The curves that allocations add up to; reserved memory is not made of allocations."""

Address = tuple[int, int | None]
"""An address, and how many allocations came before at it; None for the only one."""

_ADDRESS = re.compile(r"b?(?:0x)?([0-9a-fA-F]{1,16})(?:_(\d{1,9}))?")


def parse_address(text: str) -> Address:
    """Read ``0x7f3a00000000``, ``7f3a00000000_2`` or, as PyTorch's viewer has it, ``b7f3a..._2``.

    Raises:
        MomentError: the text is not an address.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise MomentError(f"{text!r} is not an address; write it as 0x7f3a00000000 or ..._2")
    return int(match[1], 16), None if match[2] is None else int(match[2])


@dataclass(frozen=True)
class MomentWanted:
    """A moment by one of its names, as ``Device.at()`` takes it; by none, the curve's peak."""

    event: int | None = None
    time_us: int | None = None
    stage: str | None = None
    between: tuple[int, int] | None = None
    alloc: Address | int | None = None
    free: Address | int | None = None
    curve: str = "allocated"

    def __post_init__(self) -> None:
        """Check that it has one name.

        Raises:
            MomentError: it has two.
        """
        if len(self.names) > 1:
            raise MomentError(f"a moment has only one name, not {' and '.join(self.names)}.")

    @property
    def names(self) -> list[str]:
        """Which of its names are given."""
        return [name for name, value in vars(self).items() if name != "curve" and value is not None]
