"""Find the passes of a program over time: forward, backward, optimizer step, and in between.

Each call stack is marked for what the program was doing when it allocated; the marks of what is
allocated and freed at an event, and named stages, tell which pass ran then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import expression
from snapreport.ground.memoize import once_for_both, once_for_each, shared
from snapreport.ground.native.columns import begins_run
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import matched
from snapreport.model.findings import NODE
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.snapshot import StackTable, lowest_on_path, marks_on_path
from snapreport.roles.frames import classify_frames, is_native_file
from snapreport.roles.stack_kinds import (
    EMPTY,
    find_stack_kind,
    missing_reason,
    parents_with_closures,
)

(
    PYTHON,
    BUILDS,
    LOADS,
    IN_FORWARD,
    IN_BACKWARD,
    IN_OPTIMIZER,
    RECOMPUTES,
    NO_GRAD,
    COMMUNICATES,
    FILLS_BUCKETS,
    WORKS,
    CACHES,
    CLEARS,
    CLIPS,
    COMPILED,
    ZEROES,
    LOSES,
    ATTENDS,
    FUSES,
    FEW_BITS,
    OF_MODULES,
    IN_DDP,
    ONE_STATE,
    IN_CLOSURE,
    CASTS,
    UNSHARDS,
    EXCHANGES,
) = (np.int32(1 << bit) for bit in range(27))
"""Marks of a call stack, as bits: what the program was doing when it allocated.

PYTHON: has a Python frame. BUILDS: builds or loads a model. LOADS: in a data loader.
IN_OPTIMIZER: in an optimizer step, unless a pass of the model runs inside it.
RECOMPUTES: under checkpointing, in its forward pass or recomputing in backward. FILLS_BUCKETS: DDP
makes the buckets in which ranks add up gradients. WORKS: a library's workspace.
CACHES: a KV cache, by its name. CLEARS: ``zero_grad``. CLIPS: clips gradients, between passes.
ZEROES: fills memory with zeros, as optimizer states are at first.
LOSES: a loss over classes. ATTENDS: a softmax, as of attention weights.
FUSES: an optimizer of PyTorch that can be fused. FEW_BITS: an optimizer whose state has few bits.
OF_MODULES: the building code is PyTorch's own, and makes parameters and buffers; any other
``__init__`` may make anything. IN_DDP: runs a model wrapped by DDP. ONE_STATE: an optimizer that
keeps at most one tensor per parameter. IN_CLOSURE: in what ``optimizer.step(closure)`` calls; the
marks of the step around it are left out. CASTS: inside an operation that casts what it is given, as
autocast does. UNSHARDS: FSDP makes room for a module's whole parameters. EXCHANGES: FSDP makes what
it gathers parameters or reduces gradients in."""


_Finds = Callable[[str], object]


def _rule(
    mark: np.int32, function: str = "", file: str = ""
) -> tuple[np.int32, _Finds | None, _Finds | None]:
    """Return a mark with what finds its function and its file in a name; None matches any."""

    def finder(pattern: str) -> _Finds | None:
        # search() would try one that begins with ^, as all of its alternatives do, at every letter.
        compiled = re.compile(pattern)
        return (compiled.match if pattern[:1] == "^" else compiled.search) if pattern else None

    return mark, finder(function), finder(file)


_RULES = (
    _rule(CLEARS, r"^zero_grad$"),
    _rule(IN_OPTIMIZER, r"^(?!zero_grad$)", r"torch[/\\]optim[/\\](?!lr_sch|swa_)"),
    _rule(IN_OPTIMIZER, file=r"bitsandbytes[/\\]optim|apex[/\\]optimizers|galore_torch"),
    _rule(IN_OPTIMIZER, file=r"transformers[/\\]optimization\.py|torchao[/\\]optim"),
    _rule(IN_OPTIMIZER, file=r"deepspeed[/\\]ops[/\\]\w{1,30}[/\\]\w{0,30}adam"),
    _rule(IN_OPTIMIZER, r"^(_init_group|init_group|_init_state|init_state)$"),
    _rule(CLIPS, file=r"torch[/\\]nn[/\\]utils[/\\]clip_grad|torch[/\\]amp[/\\]grad_scaler"),
    _rule(IN_BACKWARD, r"Backward\w{0,40}::|torch::autograd::Engine|AccumulateGrad"),
    _rule(IN_BACKWARD, r"^(\w{1,80}Backward\d*|backward|_engine_run_backward)$"),
    _rule(IN_BACKWARD, r"^(backward|grad)$", r"torch[/\\]autograd[/\\]__init__\.py"),
    _rule(RECOMPUTES, file=r"torch[/\\]utils[/\\]checkpoint\.py|activation_checkpointing"),
    _rule(RECOMPUTES, file=r"tensor_parallel[/\\]random\.py"),
    _rule(IN_FORWARD, r"^(_call_impl|_wrapped_call_impl|forward)$"),
    _rule(IN_FORWARD, file=r"torch[/\\]nn[/\\]functional\.py"),
    _rule(COMPILED, file=r"torchinductor_|torch[/\\]_inductor[/\\]"),
    _rule(LOADS, file=r"torch[/\\]utils[/\\]data[/\\]|-packages[/\\]datasets[/\\]|data_collator"),
    _rule(BUILDS | OF_MODULES, file=r"torch[/\\]nn[/\\](init|parameter)\.py|safetensors"),
    _rule(BUILDS | OF_MODULES, r"^(_apply|to_empty|load_state_dict|_load_from_state_dict)$"),
    _rule(BUILDS | OF_MODULES, r"^(reset_parameters|from_pretrained)$"),
    # A forked process runs all of its program inside multiprocessing's Popen.__init__.
    _rule(BUILDS, r"^__init__$", r"^(?!.{0,400}multiprocessing[/\\])"),
    _rule(OF_MODULES, r"^__init__$", r"torch[/\\]nn[/\\]modules[/\\]"),
    _rule(LOSES, r"cross_entropy|nll_loss|log_softmax|NllLoss|LogSoftmax"),
    _rule(ATTENDS, r"^(aten::)?_?softmax$"),
    _rule(ATTENDS, r"SoftmaxBackward"),
    _rule(FUSES, file=r"torch[/\\]optim[/\\](adamw?|sgd|adagrad)\.py"),
    _rule(ONE_STATE, file=r"torch[/\\]optim[/\\](sgd|adagrad)\.py"),
    _rule(FEW_BITS, file=r"bitsandbytes[/\\]optim|torchao[/\\]optim"),
    _rule(ZEROES, r"zeros_like|zeros$"),
    _rule(NO_GRAD, r"^decorate_context$"),
    _rule(
        COMMUNICATES,
        r"^(all_gather|all_reduce|reduce_scatter|all_to_all|broadcast(_object_list|_coalesced)?$)",
    ),
    _rule(COMMUNICATES, r"c10d::|ProcessGroup"),
    _rule(COMMUNICATES, file=r"torch[/\\]distributed[/\\](distributed_c10d|nn)"),
    _rule(
        FILLS_BUCKETS,
        r"^(_ddp_init_helper|_pre_forward)$",
        r"torch[/\\]nn[/\\]parallel[/\\]distributed\.py",
    ),
    _rule(FILLS_BUCKETS, r"Reducer::initialize_buckets"),
    _rule(IN_DDP, file=r"torch[/\\]nn[/\\]parallel[/\\]distributed\.py"),
    _rule(IN_DDP, r"c10d::Reducer::"),
    _rule(
        UNSHARDS,
        r"^(_?alloc_storage|init_all_gather_outputs|_alloc_padded_unsharded_flat_param)$",
        r"torch[/\\]distributed[/\\]",
    ),
    _rule(EXCHANGES, file=r"_fsdp_collectives\.py$"),
    _rule(EXCHANGES, r"^_get_reduce_scatter_tensors$"),
    _rule(WORKS, r"([Cc]u|CUDA|[Hh]ip)[Bb][Ll][Aa][Ss]\w{0,20}(Workspace|Handle)"),
    _rule(WORKS, r"Workspace::Workspace"),
    _rule(CASTS, r"^at::autocast::cached_cast\b"),
    _rule(CACHES, file=r"cache_utils\.py|kv_?cache|KVCache"),
    _rule(CACHES, r"[kK][vV]_?[cC]ache|past_key_value"),
)


@once_for_each
def stack_marks(stacks: StackTable) -> NDArray[np.int32]:
    """Return the marks of each stack; int32, shape (n_stacks + 1,), the last for NO_STACK."""
    frames = stacks.frames
    known: dict[str, tuple[list[tuple[np.int32, _Finds | None]], dict[str, np.int32]]] = {}
    marks = np.zeros(len(frames), np.int32)
    for i, (name, filename) in enumerate(zip(frames.names, frames.filenames, strict=True)):
        if filename not in known:
            short = matched(filename)
            fitting = [(mark, at) for mark, at, file in _RULES if file is None or file(short)]
            if not is_native_file(filename):
                fitting.append((PYTHON, None))
            known[filename] = (fitting, {})
        fitting, of_names = known[filename]
        bits = of_names.get(name)
        if bits is None:
            function = matched(name)
            bits = np.int32(0)
            for mark, finds in fitting:
                if finds is None or finds(function):
                    bits |= mark
            of_names[name] = bits
        marks[i] = bits
    marks[classify_frames(frames) == NODE] |= IN_BACKWARD
    marks[frames.of_forward()] = IN_BACKWARD  # these did not run themselves
    own = marks[stacks.node_frame]
    own[_casts_inside(stacks)] |= CASTS
    passes = own & (IN_FORWARD | IN_BACKWARD | IN_OPTIMIZER)
    parent = parents_with_closures(stacks)
    own[parent != stacks.node_parent] |= IN_CLOSURE
    innermost = lowest_on_path(parent, (passes == 0).astype(np.int8))
    of_node = marks_on_path(parent, own)
    of_node[own[innermost] & IN_OPTIMIZER == 0] &= ~IN_OPTIMIZER
    of_node[own[innermost] & IN_FORWARD == 0] &= ~RECOMPUTES
    return shared(np.append(stacks.of_stacks(of_node, 0), np.int32(0)))


def _casts_inside(stacks: StackTable) -> NDArray[np.bool_]:
    """Say which nodes are a cast by an operation, as the profiler's names of operators show it."""
    names = stacks.frames.names
    casts = np.array([name in ("aten::to", "aten::_to_copy") for name in names], np.bool_)
    operates = np.array([name.startswith("aten::") for name in names], np.bool_) & ~casts
    caller = np.append(operates[stacks.node_frame], False)[stacks.node_parent]
    inside: NDArray[np.bool_] = casts[stacks.node_frame] & caller
    return inside


NONE, USER, BUILD, LOAD, FORWARD, BACKWARD, OPTIMIZER = range(7)
"""What ran at an event. USER is Python code that is none of the others."""


@dataclass(frozen=True, eq=False)
class Passes:
    """When each pass ran, in events of the trace; a pass is a run of events of one phase."""

    made: NDArray[np.int8]
    """The phase in which each allocation was made; int8, shape (n_allocations,)."""
    phase: NDArray[np.int8]
    """Its phase: BUILD, FORWARD (including loading), BACKWARD or OPTIMIZER; shape (n_passes,)."""
    start: NDArray[np.int64]
    """Each pass's first event; int64, shape (n_passes,), ascending."""
    end: NDArray[np.int64]
    """Its last event, including following events without a phase; int64, shape (n_passes,)."""

    def of(self, phase: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and last events of the passes of a phase."""
        chosen = self.phase == phase
        return self.start[chosen], self.end[chosen]

    @property
    def train(self) -> bool:
        """Whether there is a backward pass or an optimizer step."""
        return bool(np.isin(self.phase, (BACKWARD, OPTIMIZER)).any())

    def covers(self, phase: int, events: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which events are in a pass of a phase; bool, in the shape of ``events``."""
        start, end = self.of(phase)
        place = np.searchsorted(start, events, side="right") - 1
        return (place >= 0) & (events <= np.append(end, START)[place])


@once_for_both
def find_passes(history: DeviceHistory, tables: History) -> Passes:
    """Find the passes from the call stacks of allocations and frees, and from named stages.

    If only Python frames were recorded, a thread without any is taken to be autograd's.
    """
    rows = history.allocations
    marks = stack_marks(tables.stacks)
    of_stack = _phases(marks)
    made, freed = of_stack[rows.stack], of_stack[rows.free_stack]
    if find_stack_kind(tables) == "python":
        made[missing_reason(history, tables.stacks) == EMPTY] = BACKWARD
    phases = np.zeros(history.events + 1, np.int8)  # the last is for frees at no event
    phases[rows.free_requested_event] = freed
    phases[rows.alloc_event] = made
    phases = phases[: history.events]
    closures = marks & IN_CLOSURE != 0
    inside = closures[rows.stack] if closures.any() else np.zeros(len(rows), np.bool_)
    _name_by_stages(phases, history, rows.alloc_event[inside])
    known = np.flatnonzero(phases)
    made[rows.made] = _filled(phases, known, rows.alloc_event[rows.made])
    kinds = phases[known]
    kinds[kinds == LOAD] = FORWARD
    at = np.flatnonzero(kinds > USER)
    first = np.flatnonzero(begins_run(kinds[at]))
    start, behind = at[first], at[np.append(first, len(at))[1:] - 1] + 1
    return Passes(made, kinds[start], known[start], np.append(known, history.events)[behind] - 1)


_PHASES = (
    (IN_OPTIMIZER | CLIPS, OPTIMIZER),
    (IN_BACKWARD, BACKWARD),
    (IN_FORWARD | COMPILED, FORWARD),
    (LOADS, LOAD),
    (BUILDS, BUILD),
    (PYTHON, USER),
)
"""Marks and their phase; a stack's phase is the first that it has a mark of."""


def _phases(marks: NDArray[np.int32]) -> NDArray[np.int8]:
    found = np.zeros(len(marks), np.int8)
    for wanted, phase in reversed(_PHASES):
        found[marks & wanted != 0] = phase
    return found


_STAGES = (
    (expression(r"^Optimizer\.step#|^optim(izer)?([ _]step)?$", re.IGNORECASE), OPTIMIZER),
    (expression(r"^(backward|bwd)$", re.IGNORECASE), BACKWARD),
    (expression(r"^(forward|fwd)$", re.IGNORECASE), FORWARD),
)


def _name_by_stages(
    phases: NDArray[np.int8], history: DeviceHistory, closures: NDArray[np.int64]
) -> None:
    """Give events inside a stage its phase, unless their own stacks show a pass.

    Args:
        phases: of each event.
        history: the device's, with the stages.
        closures: events inside a closure, ascending. A stage of the optimizer with one of them is
            left out: it spans a forward and a backward pass, too.
    """
    stages = history.stages
    first, behind = np.searchsorted(closures, (stages.start_event, stages.end_event))
    for pattern, phase in reversed(_STAGES):
        chosen = [i for i, name in enumerate(stages.name) if pattern.search(name)]
        if phase == OPTIMIZER:
            chosen = [i for i in chosen if first[i] == behind[i]]
        if chosen:
            begin = np.maximum(stages.start_event[chosen], 0)
            end = np.maximum(stages.end_event[chosen], begin)
            for low, high in _joined(begin, end):
                inside = phases[low:high]
                inside[inside <= USER] = phase


def _joined(begin: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield spans that together cover what some spans do, each event once."""
    order = np.argsort(begin)
    begin, until = begin[order], np.maximum.accumulate(end[order])
    apart = np.append(True, begin[1:] > until[:-1])
    last = np.append(apart[1:], True)
    yield from zip(begin[apart].tolist(), until[last].tolist(), strict=True)


def _filled(
    phases: NDArray[np.int8], known: NDArray[np.int64], events: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Return the phases of some events; one without has that of its neighbours, if they agree.

    Args:
        phases: of all events.
        known: the events that have one, ascending.
        events: those asked about.
    """
    found = phases[events]
    none = np.flatnonzero(found == NONE)
    if len(none) and len(known):
        place = np.searchsorted(known, events[none])
        before = phases[known[np.maximum(place - 1, 0)]]
        after = phases[known[np.minimum(place, len(known) - 1)]]
        found[none] = np.where(before == after, before, np.int8(NONE))
    return found
