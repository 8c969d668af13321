"""Programs as users write them run on a card that is not there, and leave nothing behind."""

from __future__ import annotations

import gc
import importlib
import io
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.forecast.forecasts import forecast
from tests.needed import needed
from tests.recording import ready

torch = needed("torch")


def _trained(steps: int = 0, card: str = "h100-80") -> Any:
    with forecast(card, steps=steps) as seen:
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(9):
            model(torch.randn(8, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen


# Steps


def test_it_ends_once_a_step_repeats_the_one_before() -> None:
    with forecast() as seen:
        weight = torch.nn.Parameter(torch.ones(9, device="cuda"))
        optimizer = torch.optim.Adam([weight])
        for _ in range(100):
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
    assert seen.running.repeats
    assert seen.running.steps < 6
    assert _trained().running.steps == 9


def test_of_two_optimizers_the_first_counts_the_steps() -> None:
    with forecast() as seen:
        one, two = (torch.nn.Linear(8, 8).cuda() for _ in range(2))
        first, second = (torch.optim.Adam(each.parameters()) for each in (one, two))
        for _ in range(100):
            made = one(torch.randn(4, 8, device="cuda"))
            first.zero_grad()
            two(made.detach()).sum().backward()
            second.step()
            two(made).sum().backward()
            first.step()
            second.zero_grad()
    assert seen.running.repeats
    assert seen.running.steps < 6


def test_a_loop_without_an_optimizer_runs_to_its_end() -> None:
    with forecast() as seen:
        count = 0
        for _ in range(50):
            torch.ones(3, device="cuda").sum()
            count += 1
    assert (count, seen.running.steps) == (50, 0)


# Threads


def test_threads_allocate_beside_one_another() -> None:
    def work(_: int) -> None:
        for n in range(1, 60):
            x = torch.randn(n, 64, device="cuda", requires_grad=True)
            x.exp().sum().backward()
            del x

    with forecast() as seen:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        gc.collect()
        assert seen.live == 0 == torch.cuda.memory_allocated()
        events = seen.running.book.devices[0].events
    balance = 0
    for action, _, size, *_ in events:
        balance += size if action == "alloc" else -size if action == "free_completed" else 0
        assert balance >= 0
    assert balance == 0


def test_a_thread_that_ends_leaves_its_workspace_to_the_next() -> None:
    with forecast() as seen:
        layer = torch.nn.Linear(64, 64).cuda()

        def run() -> None:
            with torch.no_grad():
                layer(torch.ones(1, 64, device="cuda"))

        for _ in range(3):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        gc.collect()
        sizes = [each.bytes for each in seen.running.book.devices[0].live.values()]
    assert len([size for size in sizes if size >= 1 << 20]) == 1


# Data


class _Images:
    def __len__(self) -> int:
        return 12

    def __getitem__(self, n: int) -> Any:
        return torch.full((3, 8, 8), float(n)), n


@pytest.mark.parametrize(("workers", "pinned"), [(0, False), (0, True), (2, True)])
def test_data_stays_real_up_to_the_card(workers: int, pinned: bool) -> None:
    with forecast() as seen:
        loader = torch.utils.data.DataLoader(
            _Images(), batch_size=4, num_workers=workers, pin_memory=pinned
        )
        numbers = []
        for images, labels in loader:
            assert images.is_pinned() is pinned
            assert images.flatten()[-1] == labels[-1]
            assert images.to("cuda", non_blocking=True).shape == (4, 3, 8, 8)
            numbers += labels.cuda().tolist()
    assert numbers == list(range(12))
    assert not seen.assumed


# Checkpoints


def test_a_checkpoint_without_values_is_there_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "best.pt"
    with forecast():
        model = torch.nn.Linear(600, 600).cuda()
        host = {name: each.cpu() for name, each in model.state_dict().items()}
        torch.save({"model": model.state_dict(), "host": host, "epoch": 3}, file)
        found = torch.load(file, weights_only=True)
        assert found["epoch"] == 3
        assert found["model"]["weight"].device.type == "cuda"
        assert found["host"]["bias"].device.type == "cpu"
        model.load_state_dict(torch.load(file, map_location="cpu")["model"])
        os.replace(file, tmp_path / "moved.pt")
        torch.save(model, file)
        assert torch.load(file, weights_only=False).weight.shape == (600, 600)
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        buffer.seek(0)
        assert list(torch.load(buffer)) == ["weight", "bias"]
    assert list(tmp_path.iterdir()) == []


def test_a_real_checkpoint_is_never_replaced(tmp_path: Path) -> None:
    real, other = tmp_path / "real.pt", tmp_path / "other.pt"
    torch.save({"weight": torch.ones(3)}, real)
    before = real.read_bytes()
    with forecast():
        nothing = {"weight": torch.ones(3, device="cuda")}
        torch.save(nothing, real)
        torch.save(nothing, other)
        os.replace(other, real)
        torch.save(nothing, other)
        other.rename(real)
        assert torch.load(real)["weight"].tolist() == [1, 1, 1]
        torch.save({"weight": torch.zeros(3)}, tmp_path / "scheduler.pt")
    assert real.read_bytes() == before
    assert torch.load(tmp_path / "scheduler.pt")["weight"].tolist() == [0, 0, 0]
    assert not other.exists()


def test_a_real_checkpoint_is_mapped_and_may_be_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "data.pt"
    torch.save({"x": torch.ones(1000)}, file)
    with forecast() as seen:
        kept = torch.load(file)["x"]
        on_card = torch.load(file, map_location="cuda")["x"]
        torch.save({"x": torch.zeros(3)}, file)
        assert kept.sum() == 1000
        assert on_card.device.type == "cuda"
        assert seen.live == 4000
    assert torch.load(file)["x"].tolist() == [0, 0, 0]


def test_safetensors_are_mapped_and_not_written(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    files = importlib.import_module("safetensors.torch")
    real, made = tmp_path / "real.safetensors", tmp_path / "made.safetensors"
    files.save_file({"x": torch.arange(6.0)}, real)
    with forecast() as seen:
        assert files.load_file(real)["x"].tolist() == [0, 1, 2, 3, 4, 5]
        found = files.load_file(real, device="cuda")
        assert seen.sizes() == [24]
        files.save_file(found, real)
        files.save_file({"x": found["x"].half()}, made)
        again = files.load_file(made, device="cuda:0")["x"]
        assert (again.dtype, again.shape, again.device.type) == (torch.half, (6,), "cuda")
        with safetensors.safe_open(real, framework="pt", device="cuda:0") as file:
            assert file.get_slice("x")[:2].device.type == "cuda"
    assert not made.exists()
    with safetensors.safe_open(real, framework="pt") as file:
        assert file.get_tensor("x").tolist() == [0, 1, 2, 3, 4, 5]


# Operations of the program's own


def test_an_operation_of_the_program_runs_by_its_fake_implementation() -> None:
    def scale(x: Any) -> Any:
        raise AssertionError("there is no card to run it on")

    def like(x: Any) -> Any:
        return torch.empty_like(x)

    scale.__annotations__ = like.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    with forecast() as seen:
        operation = torch.library.custom_op("forecast_test::scale", scale, mutates_args=())
        operation.register_fake(like)
        library = torch.library.Library("forecast_test", "FRAGMENT")
        library.define("other(Tensor x) -> Tensor")
        library.impl("other", scale, "CUDA")
        x = torch.ones(100, device="cuda")
        with pytest.raises(AssertionError, match="no card"):
            torch.ops.forecast_test.other(x)
        torch.library.register_fake("forecast_test::other", like, lib=library)
        seen.mark()
        operation(x)
        torch.ops.forecast_test.other(x)
        assert seen.sizes() == [400, 400]
        library.define("unknown(Tensor x) -> Tensor")
        with pytest.raises(NotImplementedError, match="register_fake"):
            torch.ops.forecast_test.unknown(x)
    assert set(seen.running.runner.unknown) == {"forecast_test::scale", "forecast_test::other"}
    library._destroy()


def test_what_is_to_be_compiled_runs_eagerly_and_this_is_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with forecast() as seen:
            model = torch.compile(torch.nn.Linear(8, 8).cuda())
            compiled = torch.compile(lambda x: x * 2)
            compiled(model(torch.ones(2, 8, device="cuda"))).sum().backward()
            assert next(iter(model.state_dict())) == "_orig_mod.weight"
    assert "compile" in seen.notes


def test_graphs_streams_events_and_profilers_do_as_if() -> None:
    with forecast() as seen:
        x = torch.zeros(10, device="cuda")
        stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream):
            stream.wait_stream(torch.cuda.current_stream())
            y = x * 2
            y.record_stream(stream)
            event.record()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2
        graph.replay()
        torch.cuda.synchronize()
        assert event.elapsed_time(event) >= 0
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            (x @ x).item()
        assert profile.key_averages()
        with torch.cuda.nvtx.range("step"):
            torch.cuda.nvtx.mark("here")
        # The product has its stream's workspace; what was made on the other stream is its own.
        assert {each.stream for each in seen.running.book.devices[0].live.values()} == {0}


# The end


def test_after_a_forecast_everything_is_as_before() -> None:
    kinds: list[Callable[[], Any]] = [
        lambda: torch.cuda.is_available(), lambda: torch.save, lambda: torch.compile,
        lambda: torch.Generator, lambda: torch.UntypedStorage.nbytes, lambda: os.replace,
        lambda: torch.cuda.Stream, lambda: torch.library.Library.impl,
        lambda: torch.nn.Module._apply, lambda: torch.load, lambda: torch.cuda.nccl.reduce,
    ]  # fmt: skip
    before = [each() for each in kinds]
    with forecast():
        layer = torch.nn.Linear(1024, 1024)
        left = layer.cuda()(torch.ones(2, 1024, device="cuda"))
        assert torch.cuda.is_available()
    assert [each() for each in kinds] == before
    del left, layer
    gc.collect()
    small = torch.nn.Linear(4, 2)
    small(torch.ones(3, 4)).sum().backward()
    assert small.weight.grad.shape == (2, 4)
    assert type(torch.empty(1 << 20)) is torch.Tensor


def test_one_forecast_after_another_gives_the_same() -> None:
    assert _trained().peak == _trained().peak
    assert _trained(card="rtx-4090").peak > 0


_ENDS = {
    "at its end": ("", 0, ""),
    "by an exception": ("raise ValueError('nothing there')", 1, "ValueError: nothing there"),
    "by exit": ("import sys; sys.exit(3)", 3, ""),
}


@pytest.mark.parametrize("how", _ENDS)
def test_a_program_ends_as_it_would_with_a_card(how: str, tmp_path: Path) -> None:
    end, status, said = _ENDS[how]
    (tmp_path / "train.py").write_text(
        "import torch, threading\n"
        "kept = [torch.randn(9, 9, device='cuda', requires_grad=True) for _ in range(9)]\n"
        "torch.stack(kept).exp().sum().backward()\n"
        "threading.Thread(target=lambda: torch.ones(3, device='cuda')).start()\n" + end
    )
    arguments = ["-m", "snapreport", "forecast", "--card", "h100-80", "-o", "out", "train.py"]
    ran = ready.run(arguments, tmp_path, {})
    assert ran.returncode == status, ran.stderr
    assert said in ran.stderr
    assert ("Traceback" in ran.stderr) == bool(said)
    for word in ("terminate", "ctypes", "Fatal"):
        assert word not in ran.stderr
    assert (tmp_path / "out/latest/snap.zip").exists()


# Kinds of tensors


def test_gradients_of_an_embedding_are_sparse() -> None:
    with forecast(steps=0) as seen:
        table = torch.nn.Embedding(100, 16, sparse=True).cuda()
        optimizer = torch.optim.SparseAdam(table.parameters())
        tokens = torch.randint(0, 100, (40,), device="cuda")
        for _ in range(2):
            optimizer.zero_grad()
            table(tokens).sum().backward()
            assert table.weight.grad.layout == torch.sparse_coo
            optimizer.step()
        # tokens and the gradient's indices, the table and two moments, the gradient's values
        assert seen.live == 2 * 40 * 8 + 3 * 100 * 16 * 4 + 40 * 16 * 4
        with pytest.raises(NotImplementedError, match=r"torch\.sparse_coo alone"):
            torch.ones(3, 3, device="cuda").to_sparse_csr()


def test_types_of_tensors_as_there_were_once_are_there() -> None:
    with forecast():
        made = torch.cuda.FloatTensor([[1.0, 2.0]])
        assert isinstance(made, torch.cuda.FloatTensor)
        assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)
        assert made.type(torch.cuda.HalfTensor).dtype == torch.half
        assert torch.ones(2).type("torch.cuda.LongTensor").device.type == "cuda"
        assert torch.cuda.ByteTensor(2, 3).shape == (2, 3)


def test_flexible_attention_allocates_what_its_compiled_kernel_does() -> None:
    flexible = importlib.import_module("torch.nn.attention.flex_attention")
    with forecast() as seen, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        query = torch.empty(2, 4, 256, 64, device="cuda", dtype=torch.half, requires_grad=True)
        seen.mark()
        made = torch.compile(flexible.flex_attention)(query, query, query)
        assert max(seen.sizes()) == 2 * 4 * 256 * 64 * 2  # never 256 scores for each of 256 rows
        made.sum().backward()
        assert query.grad.shape == query.shape
