"""Programs that run out of memory for a known reason, on the simulated allocator."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.callstacks import make_frame
from dev.simulator.settings import AllocatorSettings
from dev.simulator.simulator import GIB, Simulator
from tests.builders import MIB

OTHERS = 100 * MIB
"""What something else than PyTorch holds of the 1 GiB device."""
SIDE_STREAM = 0x55D0_4A20


def start(settings: AllocatorSettings | None = None) -> Simulator:
    """Return a recorded process on a device of 1 GiB."""
    made = Simulator(settings, capacity=GIB, others=OTHERS)
    made.start_recording()
    return made


def at(made: Simulator, name: str, line: int = 1) -> None:
    """Make the next calls come from a function of train.py."""
    made.set_stack([make_frame(name, "train.py", line), make_frame("<module>", "train.py", 99)])


def fail(made: Simulator, size: int, stream: int = 0) -> Simulator:
    """Ask for memory that is not there, in ``request``."""
    at(made, "request", 7)
    try:
        made.malloc(size, stream=stream)
    except OutOfMemoryError:
        return made
    raise AssertionError("the request was served")


def full(expandable: bool = False) -> Simulator:
    """900 of 924 MiB in use by three call sites, 60 asked for: 36 are missing."""
    made = start(AllocatorSettings(expandable_segments=expandable))
    for i in range(9):
        at(made, f"site_{i % 3}")
        made.malloc(100 * MIB)
    return fail(made, 60 * MIB)


def fragmented(
    settings: AllocatorSettings | None = None, made: Simulator | None = None
) -> Simulator:
    """Eleven segments of 80 MiB, of each 50 free: 550 MiB free, 200 asked for, 44 on the device."""
    made = made or start(settings)
    at(made, "first")
    for block in [made.malloc(80 * MIB) for _ in range(11)]:
        made.free(block)
    gone = []
    for _ in range(11):
        at(made, "kept")
        made.malloc(30 * MIB)
        at(made, "freed")
        gone.append(made.malloc(50 * MIB))
    for block in gone:
        made.free(block)
    return fail(made, 200 * MIB)


def locked() -> Simulator:
    """500 MiB free in a private pool; 200 asked for, 124 on the device."""
    made = start()
    allocator = made.allocators[0]
    allocator.begin_pool((1, 0))
    at(made, "capture")
    captured = [made.malloc(100 * MIB) for _ in range(5)]
    allocator.end_pool()
    for block in captured:
        made.free(block)
    at(made, "kept")
    made.malloc(300 * MIB)
    return fail(made, 200 * MIB)


def stranded() -> Simulator:
    """A MemPool of 800 MiB, half of it free segments; 150 asked for in it, 124 on the device."""
    made = start()
    made.allocators[0].begin_pool((0, 1))
    at(made, "load")
    weights = [made.malloc(100 * MIB) for _ in range(8)]
    for block in weights[::2]:
        made.free(block)
    return fail(made, 150 * MIB)


def waiting() -> Simulator:
    """400 of 800 MiB freed while a graph is captured, but used by another stream."""
    made = start()
    allocator = made.allocators[0]
    at(made, "kept")
    blocks = [made.malloc(100 * MIB) for _ in range(8)]
    for block in blocks[:4]:
        allocator.record_stream(block, SIDE_STREAM)
    allocator.begin_pool((1, 0))
    at(made, "capture")
    made.malloc(5 * MIB)
    for block in blocks[:4]:
        made.free(block)
    return fail(made, 200 * MIB)


def other_stream(settings: AllocatorSettings | None = None) -> Simulator:
    """40 segments of 20 MiB on a side stream, 12 of each free; 200 MiB asked for on the default."""
    made = start(settings)
    at(made, "side")
    pairs = [[made.malloc(8 * MIB, stream=SIDE_STREAM) for _ in range(2)] for _ in range(40)]
    for pair in pairs:
        made.free(pair[0])
    return fail(made, 200 * MIB)


def giant() -> Simulator:
    """1200 MiB asked for on a device of which 924 can be had."""
    made = start()
    at(made, "kept")
    made.malloc(100 * MIB)
    return fail(made, 1200 * MIB)


def foreign() -> Simulator:
    """700 MiB were in use at first; then something else takes 500, and 500 are asked for."""
    made = start()
    at(made, "kept")
    made.free(made.malloc(700 * MIB))
    made.empty_cache()
    made.malloc(100 * MIB)
    made.allocators[0].driver.take(500 * MIB)
    return fail(made, 500 * MIB)


def limited() -> Simulator:
    """The driver says that 824 MiB are free, and refuses 200."""
    made = start()
    at(made, "kept")
    made.malloc(100 * MIB)
    driver = made.allocators[0].driver
    driver.take(824 * MIB)
    fail(made, 200 * MIB)
    made.allocators[0].trace.ring[-1]["device_free"] = 824 * MIB
    return made


OOM_CAUSES: MappingProxyType[str, Callable[[], Simulator]] = MappingProxyType(
    {
        "full": full,
        "fragmented": fragmented,
        "stranded": stranded,
        "locked": locked,
        "waiting": waiting,
        "other-stream": other_stream,
        "giant": giant,
        "foreign": foreign,
        "limit": limited,
    }
)
"""The verdict that each has to get."""
