"""Which files are library-internal, and which are a line that someone would look up."""

from __future__ import annotations

import pytest

from snapreport.diagnosis.conclude import find
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.reporters.answers import tree_listing
from snapreport.roles.frames import classify_file, is_own_file
from tests.builders import frame, trace

SITE = "/venv/lib/python3.11/site-packages"
HASHED = "cyb76lqxmjdnfdmmvrgjg6yyqzqqoxp5sbfmq6xkhccztvgsfgfw"


@pytest.mark.parametrize(
    "package",
    [
        "ipykernel/kernelbase.py",
        "ipykernel_launcher.py",
        "tornado/platform/asyncio.py",
        "traitlets/config/application.py",
        "IPython/core/interactiveshell.py",
        "torch/distributed/run.py",
        "torch/_dynamo/eval_frame.py",
        "torch/_inductor/utils.py",
        "accelerate/accelerator.py",
        "lightning/pytorch/trainer/trainer.py",
        "pytorch_lightning/loops/fit_loop.py",
        "transformers/trainer.py",
        "transformers/trainer_seq2seq.py",
        "trl/trainer/sft_trainer.py",
        "deepspeed/runtime/engine.py",
        "ray/_private/function_manager.py",
        "_pytest/python.py",
        "click/core.py",
        "einops/_backends.py",
        "snapreport/commands/record.py",
    ],
)
def test_what_runs_a_program_is_internal_where_it_is_installed(package: str) -> None:
    assert classify_file(f"{SITE}/{package}") == LIBRARY
    assert classify_file(f"C:\\venv\\Lib\\site-packages\\{package}".replace("/", "\\")) == LIBRARY
    # As the name is shortened: from the package on.
    assert classify_file(package if "/" in package else f"site-packages/{package}") == LIBRARY
    # A project with a folder of that name is the user's.
    if not package.startswith("torch/"):
        assert classify_file(f"/home/ann/work/{package}") == OUTSIDE


@pytest.mark.parametrize(
    "file",
    [
        "/usr/lib/python3.11/asyncio/base_events.py",
        "/usr/lib/python3.11/pdb.py",
        "<frozen runpy>",
        "/home/ann/.vscode-server/extensions/ms-python.debugpy-2025.18/bundled/libs/debugpy/cli.py",
        "/opt/pycharm/plugins/python/helpers/pydev/pydevd.py",
        "/venv/bin/torchrun",
        "C:\\venv\\Scripts\\accelerate.exe\\__main__.py",
        f"/tmp/torchinductor_ann/yb/{HASHED}.py",
        f"/scratch/cache/yb/{HASHED}.py",
        "/home/ann/.triton/cache/x/launcher.py",
    ],
)
def test_debuggers_launchers_and_compiled_files_are_internal_wherever_they_lie(file: str) -> None:
    assert classify_file(file) == LIBRARY


@pytest.mark.parametrize(
    "file",
    [
        f"{SITE}/transformers/models/gpt2/modeling_gpt2.py",
        f"{SITE}/transformers/generation/utils.py",
        f"{SITE}/timm/models/vision_transformer.py",
        f"{SITE}/peft/tuners/lora/layer.py",
        f"{SITE}/bitsandbytes/nn/modules.py",
        "/tmp/ipykernel_2591349/2415349784.py",
        "<ipython-input-1-8a01efcc9603>",
        "/home/ann/trainer.py",
        "/home/ann/lightning.py",
        "/venv/bin/train",
        "/home/ann/yb/cyb76.py",
    ],
)
def test_model_libraries_and_the_users_files_are_looked_up(file: str) -> None:
    assert classify_file(file) == OUTSIDE


def test_a_long_name_is_classified_at_once() -> None:
    for unit in ("/lib/python3", "concurrent/", "Lib/", "site-packages/", "bin/", "C:/"):
        assert classify_file(unit * 6_000 + "x.py") in (LIBRARY, OUTSIDE)


def test_the_tree_of_a_notebook_begins_with_its_cell() -> None:
    outer = [
        frame("run_code", f"{SITE}/IPython/core/interactiveshell.py", 3577),
        frame("start", f"{SITE}/tornado/platform/asyncio.py", 205),
        frame("<module>", f"{SITE}/ipykernel_launcher.py", 18),
    ]
    cell = frame("<module>", "/tmp/ipykernel_12/34.py", 2)
    findings = find(trace().alloc("a", 1024, frames=[cell, *outer]).file())
    lines = tree_listing(findings.devices[0].tree, findings.tree_frames, 10).lines
    assert [line.split("%  ")[1] for line in lines] == ["<module>  /tmp/ipykernel_12/34.py:2"]


def test_memory_of_a_stack_without_the_users_frames_stays_in_the_tree() -> None:
    stack = [frame("at::add", "??", 0), frame("backward", f"{SITE}/torch/autograd/x.py", 5)]
    findings = find(
        trace().alloc("a", 1024, frames=stack).alloc("b", 3072, frames=[frame("step")]).file()
    )
    lines = tree_listing(findings.devices[0].tree, findings.tree_frames, 10).lines
    assert [line.split()[2] for line in lines] == ["75.0%", "25.0%"]
    assert "backward" in lines[1]


@pytest.mark.parametrize(
    "file",
    [
        f"{SITE}/timm/models/vit.py",
        "timm/models/vit.py",
        f"{SITE}/mine/model.py",
        f"{SITE}/torch/x.py",
    ],
)
def test_an_installed_file_is_not_of_the_users_own_project(file: str) -> None:
    assert not is_own_file(file)
    assert is_own_file("/home/ann/project/timm/vit.py")
    assert is_own_file("train.py")
    assert not is_own_file("engine.cpp")
