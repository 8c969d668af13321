"""Forecasts of one rank of many: its parts by hand, its objects, and the same program for real."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.model.roles import ROLES
from snapreport.roles.lifetimes import find_roles
from tests.needed import needed

needed("torch")

PROGRAMS = Path(__file__).parents[1] / "forecast" / "programs"


def forecast(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snapreport", "forecast", "--card", "h100-80"]
    command += ["--format", "pickle", "-o", str(folder / "out"), *map(str, arguments)]
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, check=False
    )


def trace_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = max(pickle.loads(path.read_bytes())["device_traces"], key=len)
    return events


def made_in(events: list[dict[str, Any]], *functions: str) -> Iterator[tuple[int, int]]:
    """Yield event and bytes of what a function of Python itself allocates."""
    for number, event in enumerate(events):
        names = [each["name"] for each in event["frames"] if each["filename"].endswith(".py")]
        if event["action"] == "alloc" and names and names[0] in functions:
            yield number, event["size"]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    program = tmp_path / "train.py"
    program.write_text(
        "import json, os, torch\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group('nccl')\n"
        "names = ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'GROUP_RANK')\n"
        "found = {name: os.environ[name] for name in names}\n"
        "found |= {'rank': dist.get_rank(), 'size': dist.get_world_size(),\n"
        "          'backend': dist.get_backend(), 'cards': torch.cuda.device_count()}\n"
        "print(json.dumps(found))\n"
    )
    return program


def test_a_rank_finds_what_torchrun_would_set(tmp_path: Path, environment: Path) -> None:
    done = forecast(tmp_path, "--ranks", "64", "--rank", "13", environment)
    assert json.loads(done.stdout) == {
        "RANK": "13", "WORLD_SIZE": "64", "LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8",
        "GROUP_RANK": "1", "rank": 13, "size": 64, "backend": "nccl", "cards": 8,
    }, done.stderr  # fmt: skip
    assert (tmp_path / "out/latest/snapshot.rank13.pickle").is_file()
    snapshot = pickle.loads((tmp_path / "out/latest/snapshot.rank13.pickle").read_bytes())
    (note,) = snapshot["snapreport"]["forecast"]["notes"]
    assert note.startswith("Of 64 ranks this is one")
    assert "NCCL's own buffers" in note


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ranks", "4", "--rank", "4", "train.py"], "There is no rank 4 of 4; they are 0 to 3."),
        (["--rank", "4", "train.py"], "--rank is one of --ranks N; give both."),
        (["--ranks", "4", "--rank", "a", "train.py"], "'a' is not a rank such as 3"),
        (
            ["torchrun", "--nproc-per-node", "8", "--nnodes=2", "train.py", "--lr", "1"],
            "--ranks 16 train.py --lr 1",
        ),
        (["-m", "torch.distributed.run", "-m", "train"], "--ranks N -m train"),
    ],
)
def test_wrong_ranks_and_launchers_are_told(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    for name in ("torchrun", "train.py"):
        (tmp_path / name).touch()
    done = forecast(tmp_path, *arguments)
    assert done.returncode
    assert said in done.stderr


def test_objects_and_counts_are_as_if_all_ranks_had_the_same(tmp_path: Path) -> None:
    done = forecast(tmp_path, "--ranks", "4", PROGRAMS / "parallel.py", "objects")
    assert "objects agree" in done.stdout, done.stderr
    events = trace_of(tmp_path / "out/latest/snapshot.rank0.pickle")
    # NCCL gathers four tensors of a thousand numbers into one, and so reduces them.
    whole = [size for _, size in made_in(events, "all_gather", "reduce_scatter") if size == 16_000]
    assert len(whole) == 2


def test_buckets_of_ddp_are_as_large_as_all_gradients(tmp_path: Path) -> None:
    done = forecast(
        tmp_path, "--ranks", "2", PROGRAMS / "parallel.py", "ddp", "--width", "1024",
        "--vocabulary", "4096",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    path = tmp_path / "out/latest/snapshot.rank0.pickle"
    block = 4 * (12 * 1024**2 + 4 * 1024)
    events = trace_of(path)
    first, rebuilt = (
        [size for _, size in made_in(events, name)] for name in ("_ddp_init_helper", "_pre_forward")
    )
    # One bucket at first; once the order is known, which the ranks agree on in two small tensors,
    # the first is closed at 1 MiB, so it holds the head alone, and the others at 25 MiB.
    assert rebuilt[:2] == [4 * (4 * 8 + 2 + 1), 4 * len(rebuilt[2:])]
    rebuilt = rebuilt[2:]
    assert first == [4 * block + 2 * 4 * 4096 * 1024] == [sum(rebuilt)]
    assert rebuilt[0] == 4 * 4096 * 1024
    assert all(size > 25 << 20 for size in rebuilt[1:-1])
    history = snapreport.load(path).history
    device = history.devices[0]
    roles, rows = find_roles(device, history), device.allocations
    buckets = roles.role == ROLES.index("communication buffer")
    assert int(rows.size[buckets & (rows.free_requested_event >= device.events)].sum()) == sum(
        rebuilt
    )


WIDTH, HIDDEN, VOCABULARY, LAYERS, RANKS = 256, 512, 1024, 4, 8
CONTEXT = 128
BLOCK = 2 * WIDTH**2 + 2 * WIDTH * WIDTH // 2 + 3 * WIDTH * HIDDEN + 2 * WIDTH
ROOT = 2 * VOCABULARY * WIDTH + WIDTH
EVERYTHING = LAYERS * BLOCK + ROOT


def test_parts_of_a_fully_sharded_model_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    done = forecast(
        tmp_path, "--ranks", str(RANKS), PROGRAMS / "llama_fsdp.py", "--width", str(WIDTH),
        "--hidden", str(HIDDEN), "--vocabulary", str(VOCABULARY), "--layers", str(LAYERS),
        "--heads", "4", "--kv-heads", "2", "--context", str(CONTEXT),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    history = snapreport.load(tmp_path / "out/latest/snapshot.rank0.pickle").history
    device = history.devices[0]
    roles, rows = find_roles(device, history), device.allocations
    events = trace_of(tmp_path / "out/latest/snapshot.rank0.pickle")

    # In the last backward pass, when the gradients of the second block are about to be reduced.
    reductions = [
        number for number, size in made_in(events, "allocate") if size == 4 * BLOCK
    ]  # of float32 for all ranks; what is gathered has half of that
    assert len(reductions) % LAYERS == 0
    moment = reductions[-3]
    live = (rows.alloc_event <= moment) & (rows.free_requested_event > moment)
    held: Counter[str] = Counter()
    for role, size in zip(roles.role[live].tolist(), rows.size[live].tolist(), strict=True):
        held[ROLES[role]] += size
    assert held["optimizer state"] == 2 * 4 * EVERYTHING // RANKS
    # All parameters in shards; in bfloat16 those outside of blocks. The block's are freed.
    assert held["parameter"] == 4 * EVERYTHING // RANKS + 2 * ROOT
    # What this block's gradients are reduced in, and what the next block was gathered in.
    assert held["communication buffer"] == 4 * BLOCK + 2 * BLOCK
    # Of the last block, reduced.
    assert held["gradient"] == 4 * BLOCK // RANKS

    # At the end the step has been made, and nothing is cleared.
    kept = rows.free_requested_event >= device.events
    gradients = kept & (roles.role == ROLES.index("gradient"))
    assert int(rows.size[gradients].sum()) == 4 * EVERYTHING // RANKS


def test_stages_of_a_pipeline_tell_each_other_what_they_send(tmp_path: Path) -> None:
    done = forecast(tmp_path, "--ranks", "4", "--rank", "0-1", PROGRAMS / "parallel.py", "pipeline")
    assert done.returncode == 0, done.stderr
    assert "Rank 1 of 4: " in done.stderr
    folder = tmp_path / "out/latest"
    assert sorted(each.name for each in folder.iterdir()) == [
        "snapshot.rank0.pickle", "snapshot.rank1.pickle",
    ]  # fmt: skip
    alone = forecast(tmp_path, "--ranks", "4", "--rank", "3", PROGRAMS / "parallel.py", "pipeline")
    assert (
        "Rank 3 receives objects from rank 2, which is not forecast; add --rank 2" in alone.stderr
    )


@pytest.mark.parametrize("how", ["fsdp1", "tp"])
def test_other_ways_to_share_a_model_repeat_their_steps(tmp_path: Path, how: str) -> None:
    done = forecast(tmp_path, "--ranks", "4", "--rank", "3", PROGRAMS / "parallel.py", how)
    assert done.returncode == 0, done.stderr
    assert "the last allocated exactly what the one before did" in done.stderr


def test_fsdp_asks_for_the_same_memory_as_for_real(tmp_path: Path) -> None:
    steps = ("--steps", "2", "--width", "64", "--vocabulary", "128")
    done = forecast(tmp_path, "--ranks", "2", PROGRAMS / "parallel.py", "fsdp2", *steps)
    assert done.returncode == 0, done.stderr
    ranks = []
    for rank in range(2):
        environment = os.environ | {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611", "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        command = [sys.executable, "-m", "snapreport", "record", "--format", "pickle", "-o", "real"]
        command += [str(PROGRAMS / "parallel.py"), "fsdp2", "--device", "cpu", *steps]
        ranks.append(subprocess.Popen(
            command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
        ))  # fmt: skip
    told = [each.communicate(timeout=200)[1] for each in ranks]
    assert all(each.returncode == 0 for each in ranks), told
    real = trace_of(tmp_path / "real/latest/snapshot.rank0.pickle")
    here = trace_of(tmp_path / "out/latest/snapshot.rank0.pickle")
    functions = ("allocate", "alloc_storage", "<listcomp>", "init_all_gather_outputs")
    found = [[size for _, size in made_in(each, *functions)] for each in (real, here)]
    assert len(found[0]) > 100
    assert found[0] == found[1]
