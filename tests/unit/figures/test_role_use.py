"""What roles hold adds up to the curve, and says how each is known."""

from __future__ import annotations

import numpy as np

from snapreport.diagnosis.conclude import find_figures
from snapreport.figures.curves import find_profile
from snapreport.figures.grouping import find_groups, label_allocations
from snapreport.figures.uses import evidence_texts, find_role_use
from snapreport.ground.glossary import ROLE_MEANINGS
from snapreport.model.asked import Question
from snapreport.model.history import DeviceHistory
from snapreport.model.roles import (
    ACTIVATION,
    ROLES,
    UNKNOWN,
    Evidence,
    EvidenceUse,
    Roles,
    RoleUse,
    with_roles,
)
from tests.builders import KIB, frame, trace

SEEN = (Evidence("nothing tells", 0.0), Evidence("freed in backward", 0.9), Evidence("kept", 0.6))
MODEL = [
    frame("forward", "model.py", 9),
    frame("_call_impl", "/x/torch/nn/modules/module.py"),
    frame("main", "train.py", 1),
]


def three() -> tuple[DeviceHistory, Roles]:
    """Two activations, of 1 KiB and 3 KiB, and 512 bytes that nothing is known of."""
    made = trace().alloc("a", KIB).alloc("b", 3 * KIB).alloc("c", 512).history()
    role = np.array([ACTIVATION, ACTIVATION, UNKNOWN], np.int8)
    return made, Roles(role, np.array([1, 2, 0], np.int8), SEEN)


def test_each_role_has_its_bytes_and_its_evidence_the_most_first() -> None:
    found = find_role_use(*three(), event=2)
    assert found == (
        RoleUse(
            "activation",
            4 * KIB,
            2,
            (
                EvidenceUse("kept", 0.6, 3 * KIB, 1),
                EvidenceUse("freed in backward", 0.9, KIB, 1),
            ),
        ),
        RoleUse("unknown", 512, 1, (EvidenceUse("nothing tells", 0.0, 512, 1),)),
    )
    assert find_role_use(*three(), event=-1) == ()


def test_the_evidence_of_a_role_is_told_that_of_most_allocations_first() -> None:
    texts = dict(zip(ROLES, evidence_texts(three()[1]), strict=True))
    assert texts["activation"] == "freed in backward; kept"
    assert texts["unknown"] == "nothing tells"
    assert texts["gradient"] == ""


def test_roles_are_a_grouping_of_what_is_live_and_of_curves() -> None:
    file = (
        trace()
        .alloc("scratch", KIB, frames=MODEL)
        .free("scratch", frames=MODEL)
        .alloc("kept", 2 * KIB, frames=[frame("main", "train.py", 2)])
        .file()
    )
    device = file.devices[0]
    groups = find_groups(file, device, Question(alive=(0, 0)), "role")
    assert [(each.name, each.bytes) for each in groups] == [("temporary of forward", KIB)]
    number, names = label_allocations(file, device, "role")
    curves = find_profile(device, number, names, [""] * len(names)).groups
    assert {each.name: each.peak_bytes for each in curves} == {
        "temporary of forward": KIB,
        "unknown": 2 * KIB,
    }
    figures = find_figures(file, 0)
    assert [each.role for each in figures.held_by_role] == ["unknown"]


def test_allocations_have_their_roles_in_words() -> None:
    history, roles = three()
    rows = with_roles(history.allocations, roles)
    assert rows.role.tolist() == ["activation", "activation", "unknown"]
    assert rows.role_evidence.tolist() == ["freed in backward", "kept", "nothing tells"]
    assert rows.role_confidence.tolist() == [0.9, 0.6, 0.0]


def test_every_role_has_a_meaning() -> None:
    assert tuple(ROLE_MEANINGS) == ROLES
