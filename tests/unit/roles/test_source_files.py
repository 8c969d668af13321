"""The same file in two recordings, wherever it lies."""

from __future__ import annotations

import pytest

from snapreport.roles.source_files import can_move, last_parts, pair_files


def are_same(base: str, new: str) -> bool:
    one, other = pair_files([base], [new])
    return one[base] == other[new]


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ("/a/lib/python3.10/site-packages/x/y.py", "/b/lib/python3.13/site-packages/x/y.py"),
        ("/usr/lib/python3/dist-packages/x/y.py", "C:\\v\\Lib\\site-packages\\x\\y.py"),
        ("/v/site-packages/torch/nn/modules/linear.py", "/src/pytorch/torch/nn/modules/linear.py"),
        ("/v/site-packages/torch/_tensor.py", "torch/_tensor.py"),
        ("/usr/lib/python3.10/threading.py", "/opt/conda/lib/python3.12/threading.py"),
        ("/usr/lib/python3.10/copy.py", "C:\\uv\\cpython-3.10.1-windows\\Lib\\copy.py"),
        ("/tmp/torchinductor_ann/ab/cab.py", "/tmp/torchinductor_bob/ab/cab.py"),
        ("/tmp/ipykernel_12/345.py", "/tmp/ipykernel_99/345.py"),
        ("/build/torch/csrc/Module.cpp", "/src/Module.cpp"),
        ("<eval_with_key>.3", "<eval_with_key>.14"),
        ("??", ""),
        ("/home/ann/run/train.py", "/srv/run/train.py"),
        ("/home/ann/run/../run/train.py", "/home/ann/run/train.py"),
        ("train.py", "/home/ann/run/train.py"),
    ],
)  # fmt: skip
def test_a_file_is_itself_in_another_place(base: str, new: str) -> None:
    assert are_same(base, new)
    assert are_same(new, base)


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ("/home/ann/train.py", "/home/ann/test.py"),
        ("/v/site-packages/x/y.py", "/v/site-packages/z/y.py"),
        ("/v/site-packages/x/y.py", "/home/ann/x/y.py"),
        ("/home/ann/train.py", "??"),
        ("Add.cpp", "Mul.cpp"),
    ],
)
def test_another_file_is_another(base: str, new: str) -> None:
    assert not are_same(base, new)


def test_the_root_is_what_most_files_agree_on() -> None:
    base = [f"/home/ann/run/{name}" for name in ("train.py", "model/mlp.py", "model/train.py")]
    new = [
        f"/srv/2/{name}" for name in ("train.py", "model/mlp.py", "tools/x.py", "tools/train.py")
    ]
    one, other = pair_files(base, new)
    assert one["/home/ann/run/train.py"] == other["/srv/2/train.py"]
    assert one["/home/ann/run/model/mlp.py"] == other["/srv/2/model/mlp.py"]
    assert one["/home/ann/run/model/train.py"] not in other.values()


def test_files_that_stayed_do_not_keep_others_from_being_found_elsewhere() -> None:
    stayed = ["/opt/ops/a.py", "/opt/ops/b.py", "/opt/ops/c.py"]
    one, other = pair_files([*stayed, "/home/ann/train.py"], [*stayed, "/srv/train.py"])
    assert all(one[name] == other[name] for name in stayed)
    assert one["/home/ann/train.py"] == other["/srv/train.py"]


def test_which_recording_comes_first_does_not_matter() -> None:
    base = ["/a/x/f.py", "/a/y/f.py", "/a/g.py", "f.py"]
    new = ["/b/f.py", "/b/x/f.py", "/c/y/f.py"]
    one, other = pair_files(base, new)
    turned_other, turned_one = pair_files(new, base)
    assert (one, other) == (turned_one, turned_other)


def test_only_files_whose_folders_mean_something_can_have_moved() -> None:
    assert can_move(("project", "model/core.py"))
    assert can_move(("compiled", "ab/cab.py"))
    assert not any(can_move((kind, "Add.cpp")) for kind in ("native", "none", "generated"))


def test_a_place_is_told_by_the_last_parts_of_its_path_the_name_first() -> None:
    assert last_parts(("project", "model/attention/core.py")) == ("core.py", "attention", "model")
    deep = last_parts(("file", "/" + "d/" * 100_000 + "core.py"))
    assert (deep[:2], len(deep)) == (("core.py", "d"), 64)


def test_a_file_that_moved_within_its_project_is_no_project_of_its_own() -> None:
    one, other = pair_files(
        ["/run/train.py", "/run/model.py"], ["/run/train.py", "/run/layers/model.py"]
    )
    assert one["/run/train.py"] == other["/run/train.py"]
    assert one["/run/model.py"] != other["/run/layers/model.py"]
