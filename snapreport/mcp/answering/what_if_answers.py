"""``whatif``: the peak without something, other settings of the allocator, another card, a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from snapreport.ground.errors import SnapreportError
from snapreport.ground.progress import Progress
from snapreport.ground.units import format_bytes
from snapreport.mcp.answering.finding_answers import suggestion_json
from snapreport.mcp.answering.reply import Field, Part, Reply, held_table, listed, size, table_of
from snapreport.mcp.opened.kept_recording import KeptRecording
from snapreport.model.replay.replays import Between, FactualReplay
from snapreport.reporters.terminal.plan_text import plan_notes, verdict
from snapreport.reporters.words.allocator_words import how_text

if TYPE_CHECKING:
    from snapreport.api.device import Device

_MODES = (("settings", "capacity"), ("card",), ("fit",), ("free",), ("without",))
_SERVES = {True: "yes", False: "no", None: "perhaps"}
RECORDED = "recorded"
"""As the only ``settings``: asks how exact the replay of the recording itself is."""


def what_if_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Answer one of the questions of ``whatif``.

    Raises:
        SnapreportError: two questions at once, or something in the question does not exist.
    """
    asked = [mode for mode in _MODES if any(name in arguments for name in mode)]
    if len(asked) > 1:
        names = " and ".join(mode[0] for mode in asked)
        raise SnapreportError(f"{names} are separate questions; ask one at a time.")
    device = recording.device(arguments.get("device"))
    about = {"file": recording.file.shown, "device": device.name}
    answer = _ANSWERS[asked[0][0] if asked else "without"]
    head, parts = answer(device, arguments, recording.progress)
    return Reply(about, head, tuple(parts))


Found = tuple[dict[str, Any], list[Part]]


def _removals(device: Device, arguments: Mapping[str, Any], _: Progress) -> Found:
    by, curve = arguments.get("by", "site"), arguments.get("curve", "allocated")
    patterns = arguments.get("without", ())
    was = device.peaks.get(curve)
    head: dict[str, Any] = {
        "curve": curve,
        "peak_as_recorded": None if was is None else size(was.bytes, event=was.event),
    }
    if patterns:
        left = device.peak_without(*patterns, by=by, curve=curve)
        found = left.what_if
        head |= {
            "answer": f"The peak would fall by {format_bytes(found.falls)} to"
            f" {format_bytes(found.peak_bytes)}.",
            "peak": size(found.peak_bytes, event=found.peak_event),
            "falls": size(found.falls),
            "held_at_the_recorded_peak": size(found.held),
            "allocations_taken_away": found.count,
            "taken_away": list(left.taken[:20]),
            "others_taken_away": max(0, len(left.taken) - 20) or None,
        }
        name = "Held at the remaining peak"
        return head, [held_table(name, (by, "text", "name"), left.held, found.peak_bytes)]
    fields: tuple[Field, ...] = (
        (by, "text", "name"),
        ("falls by", "bytes", "falls"),
        ("peak then", "bytes", "peak_bytes"),
        ("at event", "event", "peak_event"),
        ("held at the recorded peak", "bytes", "held"),
        ("allocations", "count", "count"),
    )
    return head, [table_of(f"The peak without each {by}", device.what_if(by, curve), fields)]


def _settings(device: Device, arguments: Mapping[str, Any], progress: Progress) -> Found:
    settings = list(arguments.get("settings", ()))
    if settings == [RECORDED]:
        return {"replay": _replay(device.replay)}, []
    found = device.other_settings(*settings, capacity=arguments.get("capacity"), progress=progress)
    head: dict[str, Any] = {
        "answer": "Nothing of this is measured: the recording was replayed through a model.",
        "floor": size(found.floor, event=found.floor_event, meaning="no setting needs less"),
        "capacity": size(found.capacity),
        "replay_of_the_recording": _replay(found.factual),
    }
    if found.hopeless:
        head["answer"] = (
            f"No setting could have helped: {format_bytes(found.floor)} are needed, and"
            f" {format_bytes(found.capacity or 0)} are available."
        )
    elif found.refused:
        head["answer"] = found.refused
    if found.outcomes:
        head["note"] = how_text(found)
    asked = found.capacity is not None
    fields: tuple[Field, ...] = (
        ("settings", "text", lambda each: f"{each.settings}{' (recorded)' * each.recorded}"),
        ("smallest capacity, least", "bytes", "capacity.least"),
        ("smallest capacity, most", "bytes", "capacity.most"),
        ("peak reserved, least", "bytes", "peak.least"),
        ("peak reserved, most", "bytes", "peak.most"),
        ("retries", "text", lambda each: _range(each.retries)),
        (
            "serves all requests",
            "text",
            lambda each: _SERVES[each.serves] if asked else "not asked",
        ),
    )
    return head, [
        table_of("Settings; smallest capacity is what to compare", found.outcomes, fields)
    ]


def _replay(replay: FactualReplay) -> dict[str, Any]:
    return {
        "settings": replay.settings,
        "exact": replay.exact,
        "allocations": replay.allocations,
        "on_their_recorded_address": replay.placed,
        "first_departs_at_event": replay.divergence,
        "cause": replay.cause or None,
        "not_modelled": replay.not_modelled or None,
    }


def _range(between: Between) -> str:
    return str(between.least) if between.one else f"{between.least} to {between.most}"


def _card(device: Device, arguments: Mapping[str, Any], _: Progress) -> Found:
    fit = device.fits(arguments["card"], arguments.get("allow"))
    needed = fit.replayed
    head = {
        "answer": fit.text,
        "outcome": fit.outcome,
        "card": fit.card,
        "card_has": size(fit.bytes),
        "room_for_pytorch": size(fit.room),
        "set_aside": size(fit.allowance.bytes, source=fit.allowance.source),
        "most_live": size(fit.live, event=fit.live_event, meaning="no setting needs less"),
        "reserved": size(fit.reserved, event=fit.reserved_event),
        "smallest_capacity_in_a_replay": needed and size(needed.most, at_least=needed.least),
    }
    return head, []


def _plan(device: Device, arguments: Mapping[str, Any], _: Progress) -> Found:
    plan = device.plan(fit=arguments.get("fit"), free=arguments.get("free"))
    peak = device.peak
    beyond = None if peak.reserved is None else peak.reserved - peak.allocated
    head = {
        "answer": verdict(plan),
        "reached": plan.reached,
        "target": size(plan.target),
        "peak": size(plan.peak),
        "expected_peak": size(plan.expected),
        "peak_at_most": size(plan.most),
        "note": plan_notes(beyond, bool(device.figures.ooms)),
    }
    steps = [
        {
            "change": suggestion_json(step.suggestion),
            "peak_then": size(step.expected),
            "peak_then_at_most": size(step.most),
        }
        for step in plan.steps
    ]
    fields = (("role", "text", "role"), ("held", "bytes", "bytes"))
    left = table_of("What the peak then consists of", plan.left, fields)
    return head, [listed("steps", steps), left]


_ANSWERS = {
    "settings": _settings,
    "without": _removals,
    "card": _card,
    "fit": _plan,
    "free": _plan,
}
