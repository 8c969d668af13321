"""Programs that fail in all the ways there are, recorded by nothing but the variable SNAPREPORT.

python -m tests.recording.forced_failures [--device cuda] [NAME ...]

No program knows of snapreport. Each must leave a page; where a request for memory failed, one that
says so. The exit status is 1 if one does not.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.laboratory.tables import markdown

SKIPPED = 77
"""The exit status by which test drivers know what could not be tested."""
_LONGEST_S = 100
_TOO_MUCH = "torch.empty(1 << 50, dtype=torch.uint8, device=D)"
COMMON = f"""
import os, signal, sys, time
import torch
D = os.environ["ON"]
def make(n): return torch.ones(n, n, device=D)
def fail():
    kept = [make(1000) for _ in range(3)]
    {_TOO_MUCH}
"""
MODEL = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
    def forward(self, x, **_):
        if self.training and int(STEP) > 2:
            torch.empty(1 << 50, dtype=torch.uint8, device=x.device)
        return self.layer(x)
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
GLOO = """
from torch import distributed
rank = int(os.environ["RANK"])
if D == "cuda": torch.cuda.set_device(rank % torch.cuda.device_count())
kept = make(1000)
distributed.init_process_group("gloo")
distributed.barrier()
"""


WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys(("textual", "mcp", "pyarrow", "fsspec", "distributed")))
exec(open("program.py").read())
"""


@dataclass(frozen=True)
class Failure:
    """A program, how it is run, and what its pages say."""

    source: str
    run: tuple[str, ...] = ("program.py",)
    says: str = "out of memory"
    """In any case, of the Markdown of some process; of a card, where a program survives it."""
    cpu_says: str | None = None
    """The same on the CPU, where no request that a program survives is heard of."""
    pages: int = 1
    """At least so many processes leave one."""
    folder: str = "out"
    needs: tuple[str, ...] = ()
    common: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    shell: str | None = None


FAILURES: Mapping[str, Failure] = {
    "plain": Failure("fail()"),
    "thread": Failure(
        "import threading\nt = threading.Thread(target=fail); t.start(); t.join(); kept = make(9)"
    ),
    "backward": Failure("""
class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g): torch.empty(1 << 50, dtype=torch.uint8, device=D); return g
x = make(500).requires_grad_(True)
Greedy.apply(x).sum().backward()
"""),
    "compiled": Failure(
        "@torch.compile(backend='aot_eager')\n"
        "def run(x):\n    return torch.zeros(1 << 50, dtype=torch.uint8, device=D) + x.sum()\n"
        "run(make(300))"
    ),
    "survived": Failure(
        "kept = make(500)\ntry: fail()\nexcept RuntimeError: pass\nmore = make(100)",
        cpu_says="",
    ),
    "python -O": Failure("fail()", ("-O", "program.py")),
    "os._exit": Failure(
        "kept = make(500)\ntry: fail()\nexcept RuntimeError: os._exit(3)", cpu_says=""
    ),
    "sys.exit": Failure("kept = make(500)\nsys.exit('no more')", says=""),
    "SIGTERM": Failure(
        "kept = make(500)\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)", says="SIGTERM"
    ),
    "SIGUSR1 in a long call": Failure(
        "import ctypes, threading\nkept = make(500)\n"
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGUSR1)).start()\n"
        "ctypes.CDLL(None).sleep(6)",
        says="SIGUSR1",
    ),
    "torchrun, one fails": Failure(
        f"{GLOO}\nif rank: fail()\ntime.sleep(60)", (*TORCHRUN, "program.py"), pages=2
    ),
    "torchrun, one is killed": Failure(
        f"{GLOO}\nif rank: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)",
        (*TORCHRUN, "program.py"),
        says="SIGTERM",
    ),
    "spawn": Failure("""
import torch.multiprocessing as mp
def work(i): fail()
if __name__ == "__main__": mp.spawn(work, nprocs=1)
"""),
    "fork": Failure("""
import multiprocessing as mp
worker = mp.get_context("fork").Process(target=fail)
worker.start(); worker.join()
"""),
    "DataLoader": Failure("""
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        if i == 6: torch.empty(1 << 50, dtype=torch.uint8)
        return torch.ones(1000)
def train():
    kept = make(500)
    for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2):
        kept[0, 0] += batch.to(D).sum()
if __name__ == "__main__": train()
""", says="can't allocate memory|out of memory"),
    "Hugging Face": Failure(
        f"{MODEL.replace('STEP', 'trainer.state.global_step')}" + """
import transformers
class Trained(Model):
    def forward(self, x, **_): return {"loss": super().forward(x).sum()}
trainer = transformers.Trainer(
    Trained(), transformers.TrainingArguments(
        "saved", max_steps=9, report_to=[], use_cpu=D == "cpu", disable_tqdm=True),
    train_dataset=[{"x": torch.ones(64)}] * 64)
trainer.train()
""",
        needs=("transformers", "accelerate"),
    ),
    "Lightning": Failure(
        f"{MODEL.replace('STEP', 'trainer.global_step')}" + """
import lightning
class Trained(lightning.LightningModule):
    def __init__(self): super().__init__(); self.model = Model()
    def training_step(self, batch, i): return self.model(batch).sum()
    def configure_optimizers(self): return torch.optim.AdamW(self.parameters())
trainer = lightning.Trainer(
    max_steps=9, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    accelerator="cpu" if D == "cpu" else "gpu", devices=1)
trainer.fit(Trained(), torch.utils.data.DataLoader(torch.ones(64, 64), batch_size=4))
""",
        needs=("lightning",),
    ),
    "Ray": Failure(
        """
import os, ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
@ray.remote
def work():
    import torch
    kept = torch.ones(1000, 1000, device=os.environ["ON"])
    torch.empty(1 << 50, dtype=torch.uint8, device=os.environ["ON"])
if os.environ["ON"] == "cuda": work = work.options(num_gpus=0)
try: ray.get(work.remote())
finally: ray.shutdown()
""",
        needs=("ray",),
        common=False,
        environment={"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},  # or Ray hides the cards
    ),
    "notebook": Failure(
        """
import nbclient, nbformat
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(t) for t in (COMMON, "fail()")])
nbclient.NotebookClient(book, timeout=200, allow_errors=True).execute()
""",
        needs=("nbclient", "ipykernel"),
        common=False,
    ),
    "IPython": Failure("fail()", ("-m", "IPython", "-c", "exec(open('program.py').read())")),
    "disk full": Failure("fail()", folder="full"),
    "folder not writable": Failure("fail()", folder="/proc/snapreport"),
    "without extras": Failure(
        "fail()",
        ("-c", WITHOUT_EXTRAS),
    ),
    "from a shell": Failure(
        "fail()", shell="true && {python} program.py; exit 3"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Left:
    """What a program left."""

    pages: Sequence[Path]
    text: str
    """Of the Markdown of all processes."""
    stderr: str
    seconds: float

    def as_wanted(self, failure: Failure, device: str) -> bool:
        """Say whether that is what is to be left."""
        says = failure.says
        if device == "cpu" and failure.cpu_says is not None:
            says = failure.cpu_says
        said = any(each.lower() in self.text.lower() for each in says.split("|"))
        return len(self.pages) >= failure.pages and said


def missing(failure: Failure) -> list[str]:
    """Return what a program needs that is not installed."""
    return [each for each in failure.needs if importlib.util.find_spec(each) is None]


def force(failure: Failure, device: str, folder: Path) -> Left:
    """Run a program, and return what it left.

    Args:
        failure: the program.
        device: ``cpu`` or ``cuda``.
        folder: to run it in; empty.
    """
    source = failure.source
    if failure.common:
        source = COMMON + source
    elif "COMMON" in source:
        source = f"COMMON = {COMMON!r}\n{source}"
    (folder / "program.py").write_text(source)
    temporary = folder / "temporary"
    temporary.mkdir()
    command = [sys.executable, *failure.run]
    if failure.shell is not None:
        command = ["bash", "-c", failure.shell.replace("{python}", sys.executable)]
    environment = {
        **os.environ, "SNAPREPORT": failure.folder, "ON": device, "TMPDIR": str(temporary),
        **failure.environment,
    }  # fmt: skip
    with _small(folder / "full") if failure.folder == "full" else _nothing():
        began = time.monotonic()
        with (folder / "stderr").open("w") as told:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=told, stderr=told,
                start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(_LONGEST_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - began
        pages = sorted(folder.glob("*/[0-9]*/*.html")) + sorted(temporary.rglob("*.html"))
        texts = [each.read_text() for each in folder.rglob("report*.md")]
    return Left(pages, "\n".join(texts), (folder / "stderr").read_text(), seconds)


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class _small:  # noqa: N801
    """A file system with room for a snapshot and no more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(self._folder)]
        subprocess.run(mount, check=True, capture_output=True)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self._folder)], check=False, capture_output=True)


def may_mount() -> bool:
    """Say whether a small file system can be made here."""
    return hasattr(os, "getuid") and os.getuid() == 0 and shutil.which("mount") is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FAILURES))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    given = parser.parse_args()
    if given.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            print("No GPU: failures were not forced on one.")
            return SKIPPED
    rows, well = [], True
    for name in given.names or FAILURES:
        failure = FAILURES[name]
        lacking = missing(failure)
        if lacking:
            rows.append([name, f"not run: no {', '.join(lacking)}", "", "", ""])
            continue
        with tempfile.TemporaryDirectory() as folder:
            left = force(failure, given.device, Path(folder))
            fine = left.as_wanted(failure, given.device)
            files = sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*"))
            shown = ", ".join(str(each.relative_to(folder)) for each in left.pages)
        rows.append([name, "yes" if fine else "NO", str(len(left.pages)), shown,
                     f"{left.seconds:.1f} s"])  # fmt: skip
        print(*rows[-1], flush=True)
        if not fine:
            print(f"== {name}\n{left.stderr[-1500:]}\n{left.text[:300]}\n{files[:40]}")
        well = well and fine
    print(markdown(("failure", "a page that says so", "pages", "where", "took"), rows))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
