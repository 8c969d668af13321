"""Forecasts a program of the laboratory as if it ran on the CPU, where its real run is known.

A forecast is of a card. With the CPU's choices in the place of CUDA's, it must equal what our CPU
recorder records of the real run. Then all that is not a kernel is right: autograd, modules,
optimizers, the order of allocations and of frees.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import sys
import tempfile
import traceback
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from snapreport.ground.cards import find_card
from snapreport.recorders.forecast import forecasting, values
from snapreport.recorders.forecast.forecasting import Forecasting, Wanted
from tests.conftest import REPOSITORY
from tests.forecast.lined_up import MAKERS, LinedUp, Row, line_up, rows_of
from tests.laboratory.programs import all_programs
from tests.laboratory.recording import Job, make
from tests.laboratory.tables import markdown
from tests.recording import ready

CARD = "h100-80"


class CpuChoices:
    """The CPU's ways, in the place of ``Substitutes``: what C++ decides by a tensor's device."""

    def __init__(self, *_: Any) -> None:
        import torch

        self._undo = contextlib.ExitStack()
        library = torch.library.Library("aten", "IMPL")
        self._undo.callback(library._destroy)
        for name, way in (
            ("scaled_dot_product_attention", _attention), ("dropout", _dropout),
            ("lstm_cell", _lstm_cell),
        ):  # fmt: skip
            library.impl(name, way, "AutogradCUDA")
            library.impl(name, way, "CUDA")
        library.impl("cross_entropy_loss", _cross_entropy, "AutocastCUDA")
        for name in _listed("AutocastCUDA") - _listed("AutocastCPU"):
            library.impl(name, torch.library.fallthrough_kernel, "AutocastCUDA",
                         allow_override=True)  # fmt: skip
        self._undo.enter_context(torch.backends.cudnn.flags(enabled=False))
        for name in ("torch.optim.optimizer", "torch.optim.swa_utils"):
            module = importlib.import_module(name)
            self._put(module, "_get_foreach_kernels_supported_devices", list)
        self._put(torch.autocast, "__init__", _autocast_on(torch.autocast.__init__))

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def remove(self) -> None:
        """Take them back."""
        self._undo.close()


def _listed(key: str) -> set[str]:
    import torch

    return set(torch._C._dispatch_get_registrations_for_dispatch_key(key))


def _autocast_on(init: Callable[..., None]) -> Callable[..., None]:
    def enter(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        """Let autocast of the CPU be one of what stands for it; a checkpoint asks for both."""
        asked = "/torch/utils/checkpoint.py" in sys._getframe(1).f_code.co_filename
        init(self, "cuda" if device_type == "cpu" and not asked else device_type, *args, **kwargs)

    return enter


def _attention(*args: Any, **kwargs: Any) -> Any:
    """Choose as ``_fused_sdp_choice_cpp`` does, which gets tensors on the CPU to look at."""
    import torch

    real = [_on_cpu(each) for each in args]
    named = {name: _on_cpu(each) for name, each in kwargs.items()}
    if torch._fused_sdp_choice(*real, **named) == 1:
        made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            *args[:3], *args[4:],
            attn_mask=args[3] if len(args) > 3 else kwargs.pop("attn_mask", None), **kwargs,
        )  # fmt: skip
        return made[0]
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return torch.ops.aten.scaled_dot_product_attention.default._op_dk(key, *args, **kwargs)


def _on_cpu(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    return made.requires_grad_(value.requires_grad)


def _dropout(value: Any, p: float, train: bool) -> Any:
    """Source: aten/src/ATen/native/Dropout.cpp, ``_dropout_impl``; CUDA has ``native_dropout``."""
    import torch

    if p == 0 or not train or value.numel() == 0:
        return value
    if p == 1:
        return value.mul(torch.zeros((), dtype=value.dtype, device=value.device))
    noise = torch.empty_like(value).bernoulli_(1 - p)
    noise.div_(1 - p)
    return value * noise


def _lstm_cell(value: Any, hidden: Any, *weights: Any) -> Any:
    """Source: aten/src/ATen/native/RNN.cpp, ``LSTMCell``, whose other way is CUDA's."""
    import torch

    linear = torch.nn.functional.linear
    of_value, of_hidden, bias, hidden_bias = weights
    gates = linear(hidden[0], of_hidden, hidden_bias).add_(linear(value, of_value, bias))
    parts = gates.unsafe_chunk(4, 1)
    came, kept, cell, out = (
        part.tanh_() if n == 2 else part.sigmoid_() for n, part in enumerate(parts)
    )
    cell = (kept * hidden[1]).add_(came * cell)
    return out * cell.tanh(), cell


def _cross_entropy(value: Any, *args: Any, **kwargs: Any) -> Any:
    """Cast to 32 bits, as autocast of the CPU does and CUDA's does not."""
    import torch

    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    with torch._C._ExcludeDispatchKeyGuard(key):
        return torch.ops.aten.cross_entropy_loss(value.float(), *args, **kwargs)


INSIDE = {
    "_scaled_dot_product_flash_attention_for_cpu": "a buffer for each thread",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "a buffer for each thread",
    "native_layer_norm_backward": "sums of each thread",
    "native_group_norm_backward": "sums of each group",
    "embedding_dense_backward": "indices without gaps",
    "bincount": "the least and the most",
}
"""What the CPU's kernels allocate for themselves, by operator. CUDA's take other memory, which is
booked from a table of its own."""
WITHIN = {
    "mkldnn_convolution": "oneDNN's own form of its arguments",
    "convolution_backward": "oneDNN's own form of its arguments",
    "_convolution": "oneDNN's own form of its arguments",
    "_slow_conv2d_forward": "columns",
    "native_batch_norm": "sums of each channel",
    "smooth_l1_loss": "the loss of each element",
    "mse_loss": "the loss of each element",
}
"""Likewise, where what is freed before the operator ends can be of the same size as a result."""
ONEDNN = ("convolution_backward", "_convolution", "mkldnn_convolution")
"""Of these, oneDNN makes temporaries, and PyTorch makes results or what is copied to be one."""
WITHOUT_GAPS = (
    "convolution_backward", "_convolution", "upsample_nearest2d", "upsample_nearest2d_backward",
    "native_layer_norm", "native_group_norm",
)  # fmt: skip
"""Operators that copy an argument with gaps, be it on the CPU or on CUDA."""
CASTS = (
    "add", "add_", "div", "div_", "mul", "mul_", "sub", "sub_", "lerp_", "ge", "le", "eq", "sum",
    "cumsum",
)  # fmt: skip
"""Operators that on the CPU cast their arguments before, and on CUDA while they compute."""
_NUMBER = 16
"""Bytes that a number takes as a tensor, at most."""
_STATE = 5056
"""Bytes that ``torch.get_rng_state()`` takes."""


def never_forecast(row: Row) -> str:
    """Say why a recording of the CPU has a row that a forecast never has."""
    if row.bytes <= _NUMBER and not row.operators:
        return "a number that Python makes a tensor on the CPU"
    if row.bytes <= _NUMBER and row.operators == ("empty",) and "/torch/optim/" in row.inner[0]:
        return "a number of an optimizer, which keeps it on the CPU"
    if row.bytes == _STATE and not row.operators:
        return "the state of random numbers, which is on the CPU"
    made = bool(row.operators) and row.operators[0] in MAKERS
    if row.within:
        if row.operators[1:3] == ("empty_like", "native_batch_norm_backward"):
            return "native_batch_norm_backward: the gradient in another memory format"
        gaps = "clone" in row.operators
        for operator in row.operators:
            if gaps and operator in WITHOUT_GAPS:
                return f"{operator}: an argument without gaps"
            if operator in WITHIN and (operator not in ONEDNN or row.copied or not made):
                return f"{operator}: {WITHIN[operator]}"
    if row.operators[1:3] == ("_to_copy", "to") and row.operators[3:4] in [(x,) for x in CASTS]:
        return "an argument that the CPU casts before it computes"
    return ""


def in_recording(row: Row) -> str:
    """Say why a recording of the CPU may have a row that the forecast has not."""
    made = bool(row.operators) and row.operators[0] in MAKERS
    short = (row.lasted or _NUMBER) <= 3
    cast = row.operators[1:3] == ("_to_copy", "to")
    if row.bytes <= _NUMBER and short and (not made or cast):
        return "a number that an operator makes a tensor on the CPU"
    if made:
        for operator in row.operators:
            if operator in INSIDE:
                return f"{operator}: {INSIDE[operator]}"
    return ""


@contextlib.contextmanager
def as_cpu() -> Iterator[Forecasting]:
    """Let the program in the body run on a card that chooses as the CPU does."""
    module: Any = forecasting
    plain = module.Substitutes
    module.Substitutes = CpuChoices
    try:
        running = Forecasting(Wanted(find_card(CARD), steps=0))
        running.runner.inside_of = lambda *_: ([], False)  # type: ignore[method-assign,assignment]
        with running.there():
            yield running
    finally:
        module.Substitutes = plain


@contextlib.contextmanager
def _trainer_on_the_card() -> Iterator[None]:
    """Let Hugging Face's trainer choose its device, which the program says is the CPU."""
    import transformers

    plain = transformers.TrainingArguments.__init__

    def init(self: Any, *args: Any, use_cpu: bool = False, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)

    transformers.TrainingArguments.__init__ = init
    try:
        yield
    finally:
        transformers.TrainingArguments.__init__ = plain


BY_VALUES = ("experts", "offloaded-experts", "lbfgs-closure", "second-order", "k-means")
"""Programs whose sizes, or whose way, depend on values of floating-point numbers."""
_ASKED = {"nonzero": "nonzero", "_local_scalar_dense": "item"}
"""Operators that tell values, and our names of what is asked."""


def real_values(program: Any, steps: int) -> dict[tuple[str, str], deque[Any]]:
    """Run a program for real; return what it asked of values, by what is asked and place.

    It runs in a child, as autograd counts the devices once, when it first runs backward.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            pickle.dump(_values_here(program, steps), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        found: dict[tuple[str, str], deque[Any]] = pickle.load(told)
    os.waitpid(child, 0)
    return found


def _values_here(program: Any, steps: int) -> dict[tuple[str, str], deque[Any]]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    told: dict[tuple[str, str], deque[Any]] = defaultdict(deque)

    class Listening(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            asked = _ASKED.get(func.overloadpacket.__name__)
            if asked is not None:
                value = len(out) if isinstance(out, torch.Tensor) else out
                told[asked, _here()].append(value)
            return out

    with Listening():
        program.build()
        program.run(steps, lambda _: None)
    return dict(told)


def _here() -> str:
    """Return the innermost line of Python that is not of a forecast and its tests."""
    frame = sys._getframe(1)
    while any(part in frame.f_code.co_filename for part in _MACHINERY):
        assert frame.f_back is not None
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_MACHINERY = (
    "/tests/forecast/", "/snapreport/recorders/", "/torch/_", "/torch/utils/", "/torch/library.py",
    "/contextlib.py",
)  # fmt: skip


@contextlib.contextmanager
def answered(told: dict[tuple[str, str], deque[Any]]) -> Iterator[None]:
    """Let a forecast know the values that the real run had."""
    plain = values.Values.item, values.Values.count

    def item(self: Any, tensor: Any) -> Any:
        found = told.get(("item", _here()))
        return found.popleft() if found else plain[0](self, tensor)

    def count(self: Any, kind: str, most: int) -> int:
        found = told.get((kind, _here()))
        return found.popleft() if found else plain[1](self, kind, most)

    values.Values.item, values.Values.count = item, count  # type: ignore[method-assign]
    try:
        yield
    finally:
        values.Values.item, values.Values.count = plain  # type: ignore[method-assign]


def forecast(program: str, variant: str, steps: int, path: Path) -> None:
    """Forecast a program in this process, and write its snapshot."""
    import torch

    warnings.simplefilter("ignore")
    gc.collect()
    gc.disable()  # as in the recording, when garbage is found depends on what else Python makes
    torch.set_num_threads(1)
    kind = all_programs()[program]
    made = kind(variant)
    with contextlib.ExitStack() as undo:
        if program == "huggingface-trainer":
            undo.enter_context(_trainer_on_the_card())
        if program in BY_VALUES:
            undo.enter_context(answered(real_values(kind(variant), steps)))
        running = undo.enter_context(as_cpu())
        torch.set_default_device("cuda")
        made.build()
        made.run(steps, lambda _: None)
        snapshot = running.snapshot()
    path.write_bytes(pickle.dumps(snapshot, 4))


def forecast_many(jobs: str, folder: str) -> None:
    """Forecast programs, given as JSON, each in a child of this process, into a folder."""
    for program, variant, steps in json.loads(jobs):
        child = os.fork()
        if not child:
            path = Path(folder, _name(program, variant))
            try:
                with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
                    forecast(program, variant, steps, path)
            except BaseException:
                path.with_suffix(".failed").write_text(traceback.format_exc())
            os._exit(0)
        os.waitpid(child, 0)


def _name(program: str, variant: str) -> str:
    return f"{program}.{variant.replace(':', '')}.pickle"


def compare(jobs: Sequence[Job]) -> dict[Job, LinedUp]:
    """Record and forecast programs; return both beside one another.

    Raises:
        AssertionError: a forecast failed.
    """
    make(jobs)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        given = json.dumps([(job.program, job.variant, job.steps) for job in jobs])
        line = f"import sys; from {__name__} import forecast_many; forecast_many(*sys.argv[1:])"
        done = ready.run(["-c", line, given, folder], REPOSITORY, {})
        assert done.returncode == 0, done.stderr
        for job in jobs:
            path = Path(folder, _name(job.program, job.variant))
            failed = path.with_suffix(".failed")
            assert not failed.exists(), f"{job}: {failed.read_text()}"
            recorded = pickle.loads((job.folder / "snapshot.pickle").read_bytes())
            made = pickle.loads(path.read_bytes())
            found[job] = line_up(
                rows_of(recorded), rows_of(made), in_recording, never_made=never_forecast
            )
    return found


COLUMNS = ("program", "allocations", "forecast", "equal", "the CPU's alone", "unexplained")


def report(jobs: Sequence[Job]) -> str:
    """Return a table of programs, and what explains the rest."""
    found = compare(jobs)
    rows, explained = [], Counter[str]()
    for job, lined in found.items():
        explained += lined.explained
        apart = {line.split(" ", 1)[0] for line in lined.elsewhere + lined.otherwise_freed}
        rows.append([
            " ".join(filter(None, (job.program, job.variant))), f"{len(lined.real):,}",
            f"{len(lined.made):,}", f"{len(lined.pairs) - len(apart):,}",
            f"{lined.explained.total():,}", f"{len(lined.unexplained) + len(apart):,}",
        ])  # fmt: skip
    sums = [f"{sum(int(row[n].replace(',', '')) for row in rows):,}" for n in range(1, 6)]
    rows.append(["all", *sums])
    lines = [f"{count:,} {why}" for why, count in explained.most_common()]
    return "\n".join([markdown(COLUMNS, rows), "", *lines])
