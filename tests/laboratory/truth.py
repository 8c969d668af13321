"""What each allocation of a program really is, as PyTorch tells while the program runs.

The program runs twice. The recording that is judged is of the program alone; the second run has
hooks on it, and what they note are addresses and moments. Both runs make the same sizes in the same
order and free them at the same places between, which is checked: so their peaks are the same to the
byte, and what is noted of the n-th allocation of one run holds for the n-th of the other. A moment
is an empty range of the profiler's, and so on the clock of its memory events: the order is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapreport.model.roles import ROLES, UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from snapreport.model.history import DeviceHistory
    from snapreport.recorders.profiler import Recorded

# What is noted twice is the earlier of these: a weight that is saved for backward is a parameter,
# and so is a batch an input; the gradient of a product may become that of a parameter.
_FIRST = (
    "parameter",
    "buffer",
    "optimizer state",
    "gradient",
    "communication buffer",
    "KV cache",
    "input",
    "activation",
)
_CAST = ("activation", "temporary of forward")
"""What autocast's copies of weights seem to be: no hook is asked for them."""

_RANK = [_FIRST.index(name) if name in _FIRST else len(_FIRST) for name in ROLES]

_NOTE = "laboratory:"
"""Begins the names of the ranges that are moments."""


class Watch:
    """What a program tells of itself; here it is not listened to."""

    def note(self, role: str, *tensors: Any) -> None:
        """Tell that tensors have a role, which PyTorch does not know of."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Tell that the body is ``backward`` or ``optimizer``, where PyTorch does not know."""
        yield

    @contextmanager
    def closure(self) -> Iterator[None]:
        """Tell that the body is what ``optimizer.step(closure)`` calls."""
        yield


class Observer(Watch):
    """Listens, and looks where PyTorch itself tells what is what."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self._notes: list[list[tuple[int, int]]] = []
        """At each moment: roles and addresses."""
        self._phase = "build"
        self._depth = 0
        self.phases: list[tuple[int, str]] = []
        """The moment from which a phase is on."""
        self.steps: list[int] = []
        """The moment at which each step begins."""

    def note(self, role: str, *tensors: Any) -> None:
        """Keep the addresses."""
        self._moment(_addresses(role, tensors))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note the phase, and what there is after it.

        After a backward pass, what is made before the next forward pass is the optimizer's, such as
        the norms of gradients.
        """
        self._enter(name)
        self._depth += 1
        yield
        self._depth -= 1
        if not self._depth:
            self.look()
            self._enter("optimizer" if name == "backward" else "forward")

    @contextmanager
    def closure(self) -> Iterator[None]:
        """Leave the optimizer's step, and go back to it."""
        depth, self._depth = self._depth, 0
        self._enter("forward")
        yield
        self._enter("optimizer")
        self._depth = depth

    def step(self) -> None:
        """Note that a step begins."""
        self.look()
        self._enter("forward")
        self.steps.append(len(self._notes) - 1)

    def look(self) -> None:
        """Note parameters, buffers, gradients and optimizer states as they are now."""
        self._moment(self.held())

    def held(self) -> list[tuple[int, int]]:
        """Return the roles and addresses of those."""
        found: list[tuple[int, int]] = []
        for module in self._program.modules:
            found += _addresses("parameter", module.parameters())
            found += _addresses("buffer", module.buffers())
            found += _addresses("gradient", (p.grad for p in module.parameters()))
        for optimizer in self._program.optimizers:
            found += _addresses("optimizer state", _tensors(optimizer.state))
        return found

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look from PyTorch's hooks while the body runs."""
        import torch
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )
        from torch.utils import checkpoint

        backward = torch.Tensor.backward
        init = torch.autograd.graph.saved_tensors_hooks.__init__
        again = checkpoint._recomputation_hook
        steps = ExitStack()

        def whole_backward(*args: Any, **named: Any) -> Any:
            with self.phase("backward"):
                return backward(*args, **named)

        def hooks_of_checkpoint(hooks: Any, pack: Callable[[Any], Any], unpack: Any) -> None:
            # What is computed again is saved, too, but no hook of ours is asked then.
            init(hooks, self._also(pack) if isinstance(hooks, again) else pack, unpack)

        def before_step(*_: Any) -> None:
            steps.enter_context(self.phase("optimizer"))

        def before_forward(*_: Any) -> None:
            if not self._depth and self._phase != "build":
                self._enter("forward")

        with ExitStack() as undo:
            undo.callback(setattr, torch.Tensor, "backward", backward)
            torch.Tensor.backward = whole_backward
            hooks = torch.autograd.graph.saved_tensors_hooks
            undo.callback(setattr, hooks, "__init__", init)
            hooks.__init__ = hooks_of_checkpoint
            undo.callback(_whole(checkpoint, self))
            undo.callback(register_optimizer_step_pre_hook(before_step).remove)
            undo.callback(register_optimizer_step_post_hook(lambda *_: steps.close()).remove)
            undo.callback(
                torch.nn.modules.module.register_module_forward_pre_hook(before_forward).remove
            )
            undo.enter_context(hooks(self._also(lambda t: t.detach()), lambda t: t))
            yield

    def _also(self, pack: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def noted(tensor: Any) -> Any:
            self.note("activation", tensor)
            return pack(tensor)

        return noted

    def _enter(self, name: str) -> None:
        if not self._depth and name != self._phase:
            self._phase = name
            self._moment([])
            self.phases.append((len(self._notes) - 1, name))

    def _moment(self, notes: list[tuple[int, int]]) -> None:
        import torch

        with torch.profiler.record_function(f"{_NOTE}{len(self._notes)}"):
            pass
        self._notes.append(notes)

    def found(self, recorded: Recorded) -> Found:
        """Match what was noted to what the profiler saw of the same run.

        Raises:
            LookupError: something was noted of memory that was not live then.
        """
        moments = {
            int(named.name.removeprefix(_NOTE)): named.start_ns
            for named in recorded.ranges
            if named.name.startswith(_NOTE)
        }
        events = [event for event in recorded.memory if event.device[0] == "cpu"]
        before = np.searchsorted(
            np.array([event.time_ns for event in events], np.int64),
            np.array([moments[i] for i in range(len(self._notes))], np.int64),
        )
        live: dict[int, int] = {}
        rows: list[int] = []
        roles: list[int] = []
        phase_of = dict(self.phases)
        phase = "build"
        at = 0
        for moment, notes in enumerate([*self._notes, []]):
            end = int(before[moment]) if moment < len(before) else len(events)
            for event in events[at:end]:
                if event.size < 0:
                    rows.append(live.pop(event.address))
                    continue
                rows.append(len(roles))
                live[event.address] = len(roles)
                roles.append(
                    ROLES.index("unknown" if phase == "build" else f"temporary of {phase}")
                )
            at = end
            phase = phase_of.get(moment, phase)
            for role, address in notes:
                if address not in live:
                    raise LookupError(f"{ROLES[role]} at {address:#x} is not live")
                row = live[address]
                if _RANK[role] < _RANK[roles[row]]:
                    roles[row] = role
        made = np.array([event.size for event in events if event.size > 0], np.int64)
        found = np.array(roles, np.int8)
        if self._program.autocasts:
            halves = made[found == ROLES.index("parameter")] // 2
            copies = np.isin(found, [ROLES.index(name) for name in _CAST]) & np.isin(made, halves)
            found[copies] = ROLES.index("autocast weight copy")
        return Found(
            roles=found,
            rows=np.array(rows, np.int64),
            sizes=np.array([event.size for event in events], np.int64),
            steps=before[self.steps],
        )


@dataclass(frozen=True)
class Found:
    """What one run with hooks told, by the order in which memory was got."""

    roles: NDArray[np.int8]
    """Of each allocation; places in ``ROLES``."""
    rows: NDArray[np.int64]
    """For each memory event its allocation."""
    sizes: NDArray[np.int64]
    """Likewise its bytes, below zero for a free."""
    steps: NDArray[np.int64]
    """The memory event with which each step begins."""

    def matched(self, history: DeviceHistory, start: int, held: Mapping[int, int]) -> Truth:
        """Tell the truth of a recording of the same program.

        Args:
            history: the recording, by the profiler of the CPU.
            start: the step before which it began, 0 for the very beginning.
            held: roles by address of what was there before.

        Raises:
            AssertionError: the two runs differ in what they made and freed.
        """
        known = history.allocations
        first = int(self.steps[start]) if start else 0
        before = int((self.sizes[:first] > 0).sum())
        # Of what was made before the profiler began it sees no free.
        seen = np.flatnonzero((np.arange(len(self.rows)) >= first) & (self.rows >= before))
        (born,) = np.nonzero(known.alloc_event >= 0)
        events = np.full(history.events, -1, np.int64)
        events[known.alloc_event[born]] = born
        freed = born[known.free_requested_event[born] < history.events]
        events[known.free_requested_event[freed]] = freed
        places = np.flatnonzero(events >= 0)
        allocates = known.alloc_event[events[places]] == places
        here = _in_order(events[places] - born[0], allocates)
        assert np.array_equal(here, _in_order(self.rows[seen] - before, self.sizes[seen] > 0))
        assert np.array_equal(known.size[born], self.sizes[seen][self.sizes[seen] > 0])
        roles = np.full(len(known), UNKNOWN, np.int8)
        roles[born] = self.roles[before : before + len(born)]
        for row in np.flatnonzero(known.alloc_event < 0).tolist():
            roles[row] = held.get(int(known.addr[row]), UNKNOWN)
        steps = np.searchsorted(seen, self.steps[start:])
        at = np.append(places, history.events)[np.minimum(steps, len(places))]
        return Truth(roles, at)


@dataclass(frozen=True)
class Truth:
    """What is known of a recording, beside its ``history.allocations``."""

    roles: NDArray[np.int8]
    """int8, shape (n_allocations,): places in ``ROLES``."""
    steps: NDArray[np.int64]
    """int64, shape (n_steps,): the trace event with which each step begins."""

    def save(self, path: Path) -> None:
        """Write it."""
        np.savez_compressed(path, roles=self.roles, steps=self.steps)

    @staticmethod
    def load(path: Path) -> Truth:
        """Read it."""
        with np.load(path) as columns:
            return Truth(columns["roles"], columns["steps"])


def _in_order(rows: NDArray[np.int64], allocates: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the allocations of memory events, with frees in order where nothing is between them.

    What is freed at once, such as the weights that autocast keeps by their addresses, goes in an
    order of its own in every run.
    """
    return rows[np.lexsort((rows, ~allocates, np.cumsum(allocates)))]


def _whole(checkpoint: Any, observer: Observer) -> Callable[[], None]:
    """Note what is given to checkpointed functions, which they keep; returns what undoes it."""
    original = checkpoint.checkpoint

    def noted(function: Any, *args: Any, **named: Any) -> Any:
        observer.note("activation", *_tensors(args))
        return original(function, *args, **named)

    checkpoint.checkpoint = noted
    return lambda: setattr(checkpoint, "checkpoint", original)


def _addresses(role: str, tensors: Iterable[Any]) -> list[tuple[int, int]]:
    place = ROLES.index(role)
    found = []
    for tensor in tensors:
        if tensor is not None:
            address = tensor.untyped_storage().data_ptr()
            if address:
                found.append((place, address))
    return found


def _tensors(held: Any) -> Iterator[Any]:
    """Yield the tensors in mappings and lists."""
    if hasattr(held, "untyped_storage"):
        yield held
    elif isinstance(held, Mapping):
        for value in held.values():
            yield from _tensors(value)
    elif isinstance(held, (list, tuple)):
        for value in held:
            yield from _tensors(value)
