"""Redaction: nothing that only some people know is left, in any byte of what is written."""

from __future__ import annotations

import base64
import pickle
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.diagnosis.compare.diff_types import Diff
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.names.redaction import redact
from tests.builders import FIRST_US, MIB, frame, trace

SECRETS = (
    "zebra", "quagga", "okapi", "tapir", "annika", "gnuhost", "wombat", "lemur", "ocelot",
    "numbat", "dingo", "caracal", "serval", "margay", "potto", "binturong", "kinkajou",
)  # fmt: skip
HOME = "/home/annika/zebra"


def secretive(*, moved: bool = False) -> dict[str, Any]:
    """A snapshot with a secret in every place that can hold a text."""
    root = "/scratch/other/zebra" if moved else HOME
    own = [frame("forward", f"{root}/quagga/okapi.py", 7), frame("tapir", f"{root}/main.py", 3)]
    lib = frame("_call_impl", "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", 9)
    private = frame("gather", "/venv/lib/python3.12/site-packages/wombat/core.py", 5)
    kernel = frame("lemur::launch(float*)", f"{root}/csrc/lemur.cu", 0)
    built = (
        trace()
        .start("ocelot phase 3", 5)
        .alloc("a", MIB, frames=[kernel, lib, *own], compile_context="0/0")
        .alloc("b", 2 * MIB, frames=[private, *own], user_metadata=f"batch of numbat in {root}")
        .free("b", frames=[lib, *own])
        .event("caracal", frames=own)
        .end("ocelot phase 3", 25)
        .settings(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True", serval=f"{root}/margay")
        .segment("a", 20 * MIB, (MIB, MIB, "live"))
    )
    snapshot = built.snapshot()
    snapshot["potto"] = 1
    snapshot["snapreport"] = {
        "format": 1,
        "made_by": "1.0",
        "recorder": "cuda",
        "command": ["python", f"{root}/main.py", "--host", "gnuhost"],
        "title": "binturong",
        "notes": "run by annika on gnuhost",
        "torch": "2.9.0+kinkajou",
        "python": "3.12.1",
        "devices": [{"device": "cuda:0", "name": "NVIDIA H100"}],
        "storages": [
            {"device": "cuda:0", "address": 1, "size": 1, "kind": "parameter", "name": "okapi.w"}
        ],
        "marks": [{"name": "dingo", "time_us": FIRST_US + 1}],
        "failure": {"type": "zebra.WombatError", "message": f"in {root}"},
    }
    return snapshot


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "zebra-annika.pickle"
    path.write_bytes(pickle.dumps(secretive()))
    return path


def unpacked(path: Path) -> bytes:
    """Return every byte that is in a file, and in what is packed in it."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return (
                b"\n".join(archive.read(name) for name in archive.namelist())
                + repr(archive.namelist()).encode()
            )
    data = path.read_bytes()
    packed = re.findall(rb'id="payload">([^<]*)<', data)
    return data + b"".join(zlib.decompress(base64.b64decode(each), 31) for each in packed)


def written(source: Path, **names: Any) -> dict[str, bytes]:
    target = source.with_name("out")
    target.mkdir(exist_ok=True)
    found = {}
    bundle = snapreport.convert(source, target / "out.zip", force=True, **names)
    found["zip"] = unpacked(bundle)
    for kind in ("html", "md"):
        report = snapreport.render(source, target / f"out.{kind}", force=True, **names)
        found[kind] = unpacked(report)
    return found


def test_every_secret_is_there_when_paths_are_kept(secret: Path) -> None:
    # Else the next test would find nothing whatever redaction did.
    data = written(secret, keep_paths=True)["zip"].lower()
    assert [word for word in SECRETS if word.encode() not in data] == []


def test_no_secret_is_in_any_byte_of_what_is_redacted(secret: Path) -> None:
    for kind, data in written(secret, redact_functions=True).items():
        left = [word for word in SECRETS if word.encode() in data.lower()]
        assert left == [], kind


def test_functions_stay_unless_they_are_to_go(secret: Path) -> None:
    data = written(secret, redact=True)["zip"].lower()
    assert [word for word in SECRETS if word.encode() in data] == ["tapir", "lemur"]


def test_no_home_is_in_any_byte_by_default(secret: Path) -> None:
    for kind, data in written(secret).items():
        assert b"/home/" not in data, kind
        assert b"/scratch/" not in data, kind


def test_what_everyone_knows_stays(secret: Path) -> None:
    history = snapreport.load(secret, redact=True).history
    frames = history.stacks.frames
    assert "torch/nn/modules/module.py" in frames.filenames
    assert {"forward", "_call_impl"} <= set(frames.names)
    assert history.settings["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert "0/0" in history.strings
    assert history.recorder is not None
    assert (history.recorder.torch, history.recorder.python) == ("2.9.0", "3.12.1")
    assert history.recorder.devices[0].name == "NVIDIA H100"
    own = [name for name in frames.filenames if name.startswith("project/")]
    assert all(re.fullmatch(r"project(/[0-9a-f]{8})+\.(py|cu)", name) for name in own)
    (stage,) = history.devices[0].stages.name
    assert re.fullmatch(r"stage-[a-p]{8} 3", stage)


def test_stages_that_tell_of_passes_stay_told() -> None:
    made = trace().alloc("a", 1024)
    names = ("Forward", "backward", "Optimizer.step#OurLion.step", "Optimizer.step#SGD.step")
    for at, name in enumerate((*names, "forward of secret")):
        made.start(name, 10 * at).end(name, 10 * at + 5)
    found = redact(made.file(), NamesWanted(redact=True)).devices[0].stages.name
    assert set(found) >= {"Forward", "backward", "Optimizer.step#SGD.step"}
    (ours,) = (name for name in found if name.startswith("Optimizer.step#optimizer_"))
    assert re.fullmatch(r"Optimizer\.step#optimizer_[a-p]{8}\.step", ours)
    assert not any("Lion" in name or "secret" in name for name in found)


def test_stand_ins_are_equal_in_files_of_one_salt_alone(secret: Path) -> None:
    def names(salt: str | None) -> list[str]:
        return snapreport.load(secret, redact=True, salt=salt).history.stacks.frames.filenames

    assert names("pepper, 16 or more") == names("pepper, 16 or more")
    assert names("pepper, 16 or more") != names("another that is as long")
    assert names(None) != names(None)


def test_a_diff_of_redacted_recordings_matches_what_that_of_the_recordings_does(
    tmp_path: Path,
) -> None:
    paths = []
    for moved in (False, True):
        paths.append(tmp_path / f"{moved}.pickle")
        paths[-1].write_bytes(pickle.dumps(secretive(moved=moved)))

    def told(**names: Any) -> list[tuple[str, int, int]]:
        found: Diff = snapreport.diff(*(snapreport.load(path, **names) for path in paths))
        return [(c.match, c.base_bytes, c.new_bytes) for c in found.sites]

    assert told(redact=True, salt="pepper, 16 or more") == told(keep_paths=True) == told()


def test_a_redacted_bundle_is_redacted_once(secret: Path, tmp_path: Path) -> None:
    bundle = snapreport.convert(secret, tmp_path / "r.zip", redact=True)
    once = snapreport.load(bundle).history
    again = snapreport.load(bundle, redact=True, salt="another that is as long").history
    assert again.stacks.frames.filenames == once.stacks.frames.filenames
    assert once.names.done == "redacted"


def test_functions_can_be_redacted_later(secret: Path, tmp_path: Path) -> None:
    salted = {"redact": True, "salt": "pepper, 16 or more"}
    bundle = snapreport.convert(secret, tmp_path / "r.zip", **salted)  # type: ignore[arg-type]
    later = snapreport.load(bundle, redact_functions=True, salt="pepper, 16 or more").history
    at_once = snapreport.load(secret, redact_functions=True, salt="pepper, 16 or more").history
    assert "tapir" not in later.stacks.frames.names
    assert later.stacks.frames.names == at_once.stacks.frames.names
    assert later.stacks.frames.filenames == at_once.stacks.frames.filenames
    assert later.names == at_once.names


def test_paths_cannot_be_kept_and_redacted(secret: Path) -> None:
    with pytest.raises(ValueError, match="contradict"):
        snapreport.load(secret, keep_paths=True, redact=True)


@pytest.mark.parametrize(
    ("function", "stays"),
    [
        ("_call_impl", True),
        ("scaled_dot_product_attention", True),
        ("tapir", False),
        ("patched_call_impl", False),
    ],
)
def test_of_a_known_file_s_functions_those_stay_that_the_packages_define(
    tmp_path: Path, function: str, stays: bool
) -> None:
    file = "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py"
    path = tmp_path / "snap.pickle"
    path.write_bytes(
        pickle.dumps(trace().alloc("a", MIB, frames=[frame(function, file)]).snapshot())
    )
    frames = snapreport.load(path, redact=True, redact_functions=True).history.stacks.frames
    assert frames.filenames == ["torch/nn/modules/module.py"]
    assert (frames.names == [function]) == stays


@pytest.mark.parametrize(
    ("file", "function", "public"),
    [
        ("<frozen importlib._bootstrap_external>", "_call_with_frames_removed", True),
        ("<frozen zebra.core>", "forward", False),
        ("/build/glibc-2.31/nptl/pthread_create.c", "start_thread", True),
        ("/build/glibc-B3wQXB/glibc-2.31/nptl/pthread_create.c", "zebra", False),
        ("/usr/src/python/Python/ceval.c", "main", True),
        ("/usr/local/src/conda/python-3.12.3/Objects/call.c", "_PyObject_MakeTpCall", True),
        ("/build/zebra/kernels.c", "main", False),
        ("/usr/src/zebra/kernels.cpp", "run_zebra", False),
    ],
)
def test_what_others_built_is_told_from_what_is_only_built_in_such_a_folder(
    tmp_path: Path, file: str, function: str, public: bool
) -> None:
    path = tmp_path / "snap.pickle"
    path.write_bytes(
        pickle.dumps(trace().alloc("a", MIB, frames=[frame(function, file)]).snapshot())
    )
    frames = snapreport.load(path, redact=True, redact_functions=True).history.stacks.frames
    assert (file in frames.filenames) == public
    assert (function in frames.names) == public or function in ("forward", "main")
