"""Budgets: how they are read, merged and held against a snapshot."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.api.loading import Snapshot
from snapreport.diagnosis.compare.gate import Budget, Check, Growth, Raised, merge
from snapreport.ground.errors import BudgetError, InputError
from snapreport.ground.units import parse_share
from snapreport.model.diagnoses import Finding, Frees, Suggestion
from snapreport.reporters.json_report import verdict_as_json
from tests.builders import MIB, TraceBuilder, frame, history_of, trace
from tests.documents import verdict_as

GIB = 1 << 30


def test_a_percentage_is_exact() -> None:
    assert parse_share("2%") == Fraction(1, 50)
    assert parse_share("0.1 %") == Fraction(1, 1000)
    with pytest.raises(ValueError, match="is not a percentage"):
        parse_share("2")


def test_a_growth_is_a_share_of_the_other_peak_or_a_size() -> None:
    assert Growth(Fraction(1, 50), None).above(1000) == 1020
    assert Growth(None, 7).above(1000) == 1007
    assert Budget.of({"max_growth": "2%"}, "x").max_growth == Growth(Fraction(1, 50), None)
    assert Budget.of({"max-growth": "1MiB"}, "x").max_growth == Growth(None, MIB)
    assert Budget.of({"max_growth": "none"}, "x").max_growth is None


def test_nothing_said_fails_on_what_is_critical() -> None:
    assert Budget.of({}, "x") == Budget()
    assert Budget().fail_on == ("critical",)
    assert Budget.of({"fail_on": "none"}, "x").fail_on == ()
    assert Budget.of({"fail_on": ["leak, oom", "leak"]}, "x").fail_on == ("leak", "oom")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"max_peek": 1}, "there is no 'max_peek'; there are max_peak"),
        ({"max_peak": "lots"}, "max_peak: 'lots' is not a size"),
        ({"max_peak": True}, "max_peak: True is not a size"),
        ({"max_peak": -1}, "max_peak: -1 is not a size"),
        ({"max_growth": "two%"}, "max_growth: 'two%' is not a percentage"),
        ({"max_growth": 0.02}, "max_growth: 0.02 is not a growth; write 2%"),
        ({"stages": "backward"}, "stages: expected a size for each name"),
        ({"stages": {"backward": "x"}}, "stages: backward: 'x' is not a size"),
        ({"fail_on": "leek"}, "no finding is called 'leek'; there are critical, warning"),
        ({"ignore": "critical"}, "no finding is called 'critical'"),
        ({"ignore": ["leek/1a2b3c"]}, "no finding is called 'leek/1a2b3c'"),
        ({"ignore": ["leak/xyz"]}, "no finding is called 'leak/xyz'"),
        ({"fail_on": 3}, "expected names of findings, not 3"),
    ],
    ids=str,
)
def test_a_budget_that_is_wrong_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(BudgetError) as caught:
        Budget.of(values, "there")
    assert str(caught.value).startswith("there: ")
    assert words in str(caught.value)


def test_what_is_said_last_wins_and_what_is_ignored_adds_up() -> None:
    merged = merge(
        {"max-peak": "1G", "max_reserved": "2G", "stages": {"a": 1, "b": 2}, "ignore": ["oom"]},
        {"max_peak": "3G", "max_growth": None, "stages": {"b": 4}, "ignore": ["leak"]},
    )
    assert merged == {
        "max_peak": "3G",
        "max_reserved": "2G",
        "stages": {"a": 1, "b": 4},
        "ignore": ["oom", "leak"],
    }


def _made(size: int, ordinal: int = 0) -> TraceBuilder:
    """A peak of ``size`` + 2 MiB inside the stage ``forward``; 2 MiB are freed after it."""
    return (
        trace(ordinal)
        .segment("s", 40 * MIB)
        .start("forward", 0)
        .alloc("a", size * MIB, frames=[frame("attend", "attention.py", 40)])
        .alloc("b", 2 * MIB, frames=[frame("project", "attention.py", 49)])
        .end("forward", 15)
        .free("b")
    )


def _snapshot(made: TraceBuilder) -> Snapshot:
    return Snapshot(made.file())


def _only(verdict: snapreport.Verdict) -> Check:
    (check,) = verdict.checks
    return check


def test_a_peak_within_its_budget_passes_and_one_byte_less_fails() -> None:
    snapshot = _snapshot(_made(4))
    kept = snapreport.check(snapshot, max_peak=6 * MIB, fail_on=[])
    assert kept.passed
    assert _only(kept).text == "The peak of allocated memory is 6.00 MiB, exactly its budget."
    broken = snapreport.check(snapshot, max_peak=6 * MIB - 1, fail_on=[])
    check = _only(broken)
    assert not broken.passed
    assert (check.outcome, check.value, check.limit, check.over) == (
        "failed", 6 * MIB, 6 * MIB - 1, 1,
    )  # fmt: skip
    assert check.event == 1
    assert "1 B (under 0.1%) over the budget of 6.00 MiB (6,291,455 bytes)" in check.text
    assert [(site.name, site.bytes) for site in check.sites] == [
        ("attend", 4 * MIB), ("project", 2 * MIB),
    ]  # fmt: skip


def test_reserved_memory_has_a_budget_of_its_own() -> None:
    check = _only(snapreport.check(_snapshot(_made(4)), max_reserved="39MiB", fail_on=[]))
    assert (check.name, check.outcome, check.over) == ("max-reserved", "failed", MIB)


@pytest.mark.parametrize(
    ("name", "limit", "outcome", "value"),
    [
        ("forward", 6 * MIB, "passed", 6 * MIB),
        ("forward", 5 * MIB, "failed", 6 * MIB),
        ("for*", 5 * MIB, "failed", 6 * MIB),
        ("forwrad", 5 * MIB, "unknown", None),
    ],
)
def test_a_stage_has_a_budget(name: str, limit: int, outcome: str, value: int | None) -> None:
    verdict = snapreport.check(_snapshot(_made(4)), stages={name: limit}, fail_on=[])
    check = _only(verdict)
    assert (check.name, check.subject, check.outcome, check.value) == (
        "max-stage", name, outcome, value,
    )  # fmt: skip
    assert verdict.passed == (outcome == "passed")
    if outcome == "unknown":
        assert "no stage is named 'forwrad'; this recording has 'forward'" in check.text


def test_a_category_has_a_budget_for_the_most_that_it_holds() -> None:
    snapshot = _snapshot(_made(4))
    rules = snapreport.load_rules('{"attention": "attend", "rest": "nothing has this"}')
    wanted: dict[str, int | str] = {"attention": "3MiB", "rest": 0, "atention": "1G"}
    verdict = snapreport.check(snapshot, categories=wanted, rules=rules, fail_on=[])
    over, empty, typo = verdict.checks
    assert (over.outcome, over.value, over.over) == ("failed", 4 * MIB, MIB)
    assert [site.name for site in over.sites] == ["attend"]
    assert (empty.outcome, empty.value) == ("passed", 0)
    assert typo.outcome == "unknown"
    assert "there is no such category; there are attention, rest, unknown" in typo.text


def test_a_growth_is_held_against_the_other_recording_with_its_call_sites() -> None:
    base, new = _snapshot(_made(8)), _snapshot(_made(9))
    assert snapreport.check(new, base=base, max_growth="10%", fail_on=[]).passed
    verdict = snapreport.check(new, base=base, max_growth="9.9%", fail_on=[])
    check = _only(verdict)
    assert (check.value, check.base, check.over) == (11 * MIB, 10 * MIB, MIB - 1038090)
    assert check.text == (
        "The peak grew by 1.00 MiB (10%), from 10.00 MiB to 11.00 MiB; +1014 KiB (9.9%) is"
        " allowed, 10.24 KiB too much."
    )
    assert (check.changes[0].name, check.changes[0].change) == ("attend", MIB)
    (compared,) = verdict.comparisons
    assert compared.change == MIB
    assert snapreport.check(base, base=new, max_growth="0%", fail_on=[]).passed


def test_a_growth_without_another_recording_is_an_error() -> None:
    with pytest.raises(BudgetError, match="max_growth needs another snapshot"):
        snapreport.check(_snapshot(_made(4)), max_growth="2%")


def test_one_gpu_of_each_recording_is_compared_whatever_its_number() -> None:
    verdict = snapreport.check(
        _snapshot(_made(4, 1)), base=_snapshot(_made(4)), max_growth="0%", fail_on=[]
    )
    assert verdict.passed
    assert verdict.comparisons[0].base.device == "cuda:0"


def test_a_file_without_history_passes_no_budget_but_may_break_one() -> None:
    made = trace().segment("s", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    snapshot = _snapshot(made)
    unknown = _only(snapreport.check(snapshot, max_peak="5MiB", fail_on=[]))
    assert unknown.outcome == "unknown"
    assert "the snapshot has no history" in unknown.text
    assert _only(snapreport.check(snapshot, max_peak="3MiB", fail_on=[])).outcome == "failed"
    grown = snapreport.check(snapshot, base=_snapshot(_made(4)), max_growth="500%", fail_on=[])
    assert _only(grown).outcome == "unknown"


def test_every_gpu_is_checked_unless_one_is_named() -> None:
    first, second = _made(4).snapshot(), _made(8, 1).snapshot()
    both = {
        **second,
        "segments": first["segments"] + second["segments"],
        "device_traces": [first["device_traces"][0], second["device_traces"][1]],
    }
    snapshot = _snapshot_of(both)
    verdict = snapreport.check(snapshot, max_peak="7MiB", fail_on=[])
    assert verdict.devices == ("cuda:0", "cuda:1")
    assert [check.outcome for check in verdict.checks] == ["passed", "failed"]
    assert snapreport.check(snapshot, device=0, max_peak="7MiB", fail_on=[]).passed


def _snapshot_of(raw: object) -> Snapshot:
    return Snapshot(history_of(raw))


def _failing() -> Snapshot:
    made = _made(4).event("oom", addr=None, device_free=MIB, size=9 * MIB)
    return _snapshot(made)


def test_a_finding_fails_by_code_id_topic_or_a_severity_as_bad() -> None:
    device = _failing().findings().devices[0]
    codes = {each.code for each in device.diagnosis.findings} | {
        each.code for each in device.warnings
    }
    assert codes  # whatever the detectors say of it, the gate takes their names
    for finding in device.diagnosis.findings:
        for name in (finding.id, finding.code, finding.topic, finding.severity, "note"):
            verdict = snapreport.check(_failing(), fail_on=[name])
            assert finding.id in {each.finding.id for each in verdict.findings if each.fails}
        for name in (finding.id, finding.code, finding.topic):
            verdict = snapreport.check(_failing(), fail_on=["note"], ignore=[name])
            assert finding.id in {each.finding.id for each in verdict.ignored}
            assert finding.id not in {each.finding.id for each in verdict.findings}


def test_a_file_has_budgets_that_the_caller_s_win_over(tmp_path: Path) -> None:
    (tmp_path / "base.pickle").write_bytes(pickle.dumps(_made(4).snapshot()))
    path = tmp_path / "pyproject.toml"
    path.write_text(
        "[tool.snapreport.check]\n"
        'max-peak = "5MiB"\nmax_growth = "1%"\nbase = "base.pickle"\nfail_on = []\n'
        '[tool.snapreport.check.stages]\nforward = "6MiB"\n'
    )
    snapshot = _snapshot(_made(4))
    verdict = snapreport.check(snapshot, budget=path)
    assert {check.name: check.outcome for check in verdict.checks} == {
        "max-peak": "failed", "max-stage": "passed", "max-growth": "passed",
    }  # fmt: skip
    assert verdict.budget == str(path)
    assert snapreport.check(snapshot, budget=path, max_peak="none").passed
    assert snapreport.check(snapshot, budget=path, max_peak="7MiB").passed


def test_a_toml_file_of_its_own_needs_no_table(tmp_path: Path) -> None:
    path = tmp_path / "memory.toml"
    path.write_text('max_peak = 6291456\nfail_on = "none"\n')
    assert snapreport.check(_snapshot(_made(4)), budget=path).passed


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("memory.toml", "max_peak = ", "memory.toml is not valid TOML"),
        ("memory.toml", "max_peek = 3", "memory.toml: there is no 'max_peek'"),
        ("memory.toml", "tool.snapreport.check = 3", "tool.snapreport.check is not a table"),
        ("pyproject.toml", "", "pyproject.toml has no table [tool.snapreport.check]"),
    ],
)
def test_a_budget_file_that_is_wrong_is_named(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BudgetError) as caught:
        snapreport.check(_snapshot(_made(4)), budget=path)
    assert words in str(caught.value)


def test_a_budget_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml cannot be read"):
        snapreport.check(_snapshot(_made(4)), budget=tmp_path / "none.toml")


def test_a_failing_finding_says_what_to_do_in_every_form() -> None:
    finding = Finding(
        "leak",
        "warning",
        "1 MiB more with every step",
        "It grows.",
        subject="train.py:3",
        suggestions=(
            Suggestion("leak", "Call *detach()* first.", "loss.detach()", Frees.exactly(MIB)),
        ),
    )
    verdict = replace(
        snapreport.check(_snapshot(_made(4)), fail_on=["leak"]),
        findings=(Raised("cuda:0", finding, True),),
    )
    assert verdict.failures == (f"cuda:0: 1 MiB more with every step ({finding.id})",)
    assert "    - Call *detach()* first." in verdict_as(verdict, "txt")
    assert "  - Call \\*detach()\\* first." in verdict_as(verdict, "md")
    (as_json,) = verdict_as_json(verdict)["findings"]
    assert as_json["suggestions"][0]["frees"]["expected"] == MIB
    assert repr(verdict) == "<Verdict on snap.pickle: failed for 1 reason>"


def test_of_a_thousand_checks_those_that_failed_are_told() -> None:
    made = snapreport.check(_snapshot(_made(4)), max_peak=MIB * 100)
    (passed,) = made.checks
    failed = replace(passed, device="rank 900", outcome="failed", text="The peak is too high.")
    verdict = replace(made, checks=(passed,) * 900 + (failed,) + (passed,) * 99)
    for kind in ("txt", "md"):
        told = verdict_as(verdict, kind)
        assert told.count("max-peak") == 100
        assert "The peak is too high." in told
        assert "900 more." in told
