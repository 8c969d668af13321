"""Short names of files: no more of a path than tells which file it is."""

from __future__ import annotations

import pytest

from snapreport.figures.grouping import module_of
from snapreport.model.asked import (
    KEPT,
    SHORT,
)
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.names.short_paths import short_names, shorten
from snapreport.roles.frames import classify_file
from snapreport.roles.source_files import pair_files
from tests.builders import frame, trace

PROJECT = ["/home/ann/code/zebra/train.py", "/home/ann/code/zebra/net/models.py"]


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/venv/lib/python3.12/site-packages/torch/nn/init.py", "torch/nn/init.py"),
        ("/usr/lib/python3/dist-packages/numpy/core/numeric.py", "numpy/core/numeric.py"),
        ("/venv/lib/python3.12/site-packages/six.py", "site-packages/six.py"),
        (r"C:\Users\Ann\proj\.venv\Lib\site-packages\torch\_tensor.py", "torch/_tensor.py"),
        ("/home/ann/src/pytorch/torch/nn/functional.py", "torch/nn/functional.py"),
        ("/usr/lib/python3.11/threading.py", "python3.11/threading.py"),
        ("/usr/lib64/python3.9/asyncio/events.py", "python3.9/asyncio/events.py"),
        (r"C:\Users\Ann\AppData\Local\Python\Python311\Lib\runpy.py", "python3.11/runpy.py"),
        ("/tmp/torchinductor_ann/ab/cabc.py", "torchinductor_~/ab/cabc.py"),
        ("/tmp/ipykernel_77/123.py", "ipykernel_77/123.py"),
        ("/opt/conda/bin/torchrun", "bin/torchrun"),
        ("/home/ann/code/zebra/train.py", "zebra/train.py"),
        ("/home/ann/.vscode-server/debugpy/cli.py", "~/.vscode-server/debugpy/cli.py"),
        ("/home/ann/code/zebra/csrc/fused.cu", "zebra/csrc/fused.cu"),
        ("/build/python-3.12.3/Objects/call.c", "/build/python-3.12.3/Objects/call.c"),
        ("CUDACachingAllocator.cpp", "CUDACachingAllocator.cpp"),
        ("train.py", "train.py"),
        ("<eval_with_key>.3", "<eval_with_key>.3"),
        ("??", "??"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_name_begins_where_it_tells_something(path: str, short: str) -> None:
    assert short_names([*PROJECT, path]).names[path] == short


def test_files_of_two_folders_differ_below_the_project() -> None:
    short = short_names(["/w/zebra/a/models.py", "/w/zebra/b/models.py"])
    assert list(short.names.values()) == ["zebra/a/models.py", "zebra/b/models.py"]
    assert short.root == ("", "w", "zebra")


@pytest.mark.parametrize(
    ("home", "path"),
    [
        ("~/train.py", "/home/ann/train.py"),
        ("~/train.py", "/Users/ann/train.py"),
        ("~/train.py", "/root/train.py"),
        ("~/train.py", r"C:\Users\Ann Lee\train.py"),
        ("~/train.py", "/mnt/c/Users/ann/train.py"),
        ("~/train.py", "/export/home/ann/train.py"),
    ],
)
def test_a_home_is_a_tilde_and_never_the_name_of_the_project(home: str, path: str) -> None:
    assert short_names([path]).names[path] == home
    assert short_names([path]).root == ()


def test_two_projects_in_a_home_are_told_apart_below_it() -> None:
    short = short_names(["/home/ann/one/a.py", "/home/ann/two/a.py"]).names
    assert sorted(short.values()) == ["~/one/a.py", "~/two/a.py"]


def test_folders_named_after_a_known_user_are_homes_too() -> None:
    files = ["/scratch/ann/one/a.py", "/scratch/ann/two/b.py"]
    assert sorted(short_names(files, {"ann"}).names.values()) == ["~/one/a.py", "~/two/b.py"]


def test_names_stay_different_from_one_another() -> None:
    files = [
        "/home/ann/a.py",
        "/home/bob/a.py",
        "/v1/lib/python3.11/site-packages/torch/x.py",
        "/v2/lib/python3.11/site-packages/torch/x.py",
        "torch/x.py",
        "~/a.py",
    ]
    short = short_names(files).names
    assert len(set(short.values())) == len(files)
    assert short["torch/x.py"] == "torch/x.py"
    assert short["~/a.py"] == "~/a.py"


def test_a_project_with_the_name_of_a_library_is_not_taken_for_it() -> None:
    files = ["/home/ann/transformers/train.py", "/home/ann/transformers/data/x.py"]
    assert short_names(files).names[files[0]] == "~/transformers/train.py"
    assert short_names(["/w/python3.11/train.py"]).names["/w/python3.11/train.py"] == (
        "/w/python3.11/train.py"
    )


def test_what_is_told_from_a_name_is_told_alike_from_the_short_one() -> None:
    # A project below a folder "torch" counts as PyTorch's; that is no better afterwards, or worse.
    path = "/home/ann/torch/mine/train.py"
    short = short_names([path]).names[path]
    assert (short, classify_file(path), classify_file(short)) == (
        "~/torch/mine/train.py",
        LIBRARY,
        LIBRARY,
    )
    assert classify_file("python3.11/threading.py") == LIBRARY
    assert classify_file("zebra/train.py") == OUTSIDE


def test_short_names_stay_as_they_are() -> None:
    once = short_names([*PROJECT, "/usr/lib/python3.11/runpy.py", "/home/ann/.x/y.py"]).names
    again = short_names(once.values()).names
    assert all(before == after for before, after in again.items())


def test_what_is_known_of_the_events_holds_with_short_names() -> None:
    file = trace().alloc("a", 4, frames=[frame("f", "/home/me/project/train.py")]).file()
    assert shorten(file).devices[0].other is file.devices[0].other


def test_modules_are_named_as_an_import_would_name_them() -> None:
    assert module_of("torch/nn/modules/module.py") == "torch.nn.modules.module"
    assert module_of("python3.11/concurrent/futures/thread.py") == "concurrent.futures.thread"
    assert module_of("zebra/net/__init__.py") == "zebra.net"
    assert module_of("site-packages/six.py") == "six"
    assert module_of("~/one/a.py") == "one.a"
    assert module_of("/opt/x/a.py") == "a"
    assert module_of("Blas.cpp") == "Blas.cpp"


def test_a_diff_matches_short_names_of_two_checkouts() -> None:
    base, new = pair_files(["old/a.py", "old/b.py"], ["new/src/a.py", "new/src/b.py"])
    assert base["old/a.py"] == new["new/src/a.py"]
    base, new = pair_files(["python3.10/runpy.py"], ["python3.12/runpy.py"])
    assert base["python3.10/runpy.py"] == new["python3.12/runpy.py"]


def test_every_text_of_a_history_loses_its_homes() -> None:
    history = (
        trace()
        .alloc(
            "a",
            4,
            frames=[frame("f", path) for path in PROJECT],
            user_metadata="from /home/ann/data.bin",
        )
        .file()
    )
    assert history.names.done == KEPT
    short = shorten(history)
    assert short.names.done == SHORT
    assert short.names.project == "zebra"
    assert shorten(short) is short
    assert not [text for text in short.strings if "ann" in text]
