"""Answers about real files: every view of a moment sums to the curve, on every device."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from snapreport.api.loading import Snapshot
from snapreport.figures.callsites import name_stacks
from snapreport.model.asked import (
    GROUPINGS,
)
from snapreport.reporters.json_report import findings_as_json
from snapreport.roles.frames import is_own_file
from tests.builders import MIB, frame, trace
from tests.conftest import REPOSITORY
from tests.corpus import corpus_files, every_corpus_file, findings_of, loaded
from tests.golden.test_samples import SAMPLES


@every_corpus_file
def test_every_view_of_a_moment_sums_to_the_curve(path: Path) -> None:
    snapshot = loaded(path)
    for history in snapshot.devices:
        device = snapshot.device(str(history.device))
        chance = random.Random(path.name).sample(range(device.events), min(2, device.events))
        events = {-1, *chance, device.at().event, device.events - 1}
        for curve in ("allocated", "requested", "active"):
            for event in sorted(event for event in events if event < device.events):
                moment = device.at(event, curve=curve)
                assert int(moment.live().bytes.sum()) == moment.bytes
                assert int(moment.tree().bytes[0]) == moment.bytes
                assert sum(line.bytes for line in moment.lines()) == moment.bytes
                assert sum(line.bytes for line in moment.lines(("model",))) == moment.bytes
                assert getattr(moment.amounts, curve) == moment.bytes
                for by in GROUPINGS:
                    assert sum(group.bytes for group in moment.by(by)) == moment.bytes
            for by in ("category", "role"):
                profile = device.profile(by, curve=curve)
                summed = sum(
                    (group.bytes for group in profile.groups), np.zeros(device.events + 1, np.int64)
                )
                assert np.array_equal(summed, device.curve(curve))
        held = device.figures.held_by_role
        assert sum(each.bytes for each in held) == device.peak.allocated
        assert sum(each.bytes for role in held for each in role.evidence) == device.peak.allocated


def test_call_sites_of_a_compiled_model_are_lines_of_the_model(corpus: Path) -> None:
    (device,) = findings_of(corpus / "compiled_2.7b_forward.pickle").devices
    named = [site for site in device.sites if site.frame is not None]
    assert len(named) == 13
    for site in named:
        assert is_own_file(site.filename), site
        assert site.line is not None, site
        assert site.name.removeprefix("compiled code called from ") in _OF_THE_MODEL, site


_OF_THE_MODEL = {"forward", "softmax", "scaled_dot_product_attention", "cross_entropy_loss"}


_INTERNAL = re.compile(
    r"(?<![\w.])(?:at|c10|caffe2|std)::|torch::(?!nn::|optim::)|CUDACachingAllocator"
    r"|\b_{0,2}Py[A-Z]\w*_|\b__clone"
)
"""Functions of ATen, c10, the unwinder, autograd's engine and the interpreter."""


every_sample_and_corpus_file = pytest.mark.parametrize(
    "path",
    [*(REPOSITORY / "sample_snapshots" / name for name in SAMPLES), *corpus_files()],
    ids=lambda path: path.name,
)


@every_sample_and_corpus_file
def test_no_call_site_finding_or_advice_names_a_function_inside_pytorch(path: Path) -> None:
    found, said = _sites_and_findings(path)
    assert not [text for text in found if _INTERNAL.search(text)] + _INTERNAL.findall(said)


_GENERATED = re.compile(
    r"torchinductor_|\bc[a-z2-7]{50,}\.py|<eval_with_key>|fx_generated_", re.IGNORECASE
)
"""Files that Inductor or FX generated."""


@every_sample_and_corpus_file
def test_no_call_site_finding_or_advice_names_a_generated_file(path: Path) -> None:
    found, said = _sites_and_findings(path)
    assert not [text for text in found if _GENERATED.search(text)] + _GENERATED.findall(said)


def test_compiled_code_without_a_line_of_the_programs_is_named_in_every_answer() -> None:
    call = frame("call", f"/tmp/torchinductor_ann/yb/cyb{'a2' * 24}.py", 175)
    back = frame("backward", "/venv/lib/python3.11/site-packages/torch/runtime_wrappers.py", 9)
    made = trace().alloc("a", MIB, frames=[call, back]).alloc("b", MIB, frames=[call | {"line": 9}])
    snapshot = Snapshot(made.file())
    device = snapshot.device()
    said = json.dumps(findings_as_json(snapshot.findings()))
    for by in (each for each in GROUPINGS if each != "stack"):
        said += "".join(group.name for group in device.at().by(by))
    said += "".join(line.location for line in device.at().lines())
    said += "".join(each.name for each in device.what_if("site"))
    assert not _GENERATED.findall(said)
    assert "compiled code" in said


def _sites_and_findings(path: Path) -> tuple[list[str], str]:
    snapshot = loaded(path)
    stacks = snapshot.history.stacks
    named = name_stacks(stacks, range(len(stacks)))
    return named, json.dumps(findings_as_json(snapshot.findings()))
