"""Memory that grows with each call of a model because the program keeps what the call returned.

A result that needs gradients holds all that its backward pass would need. Where no backward pass
was recorded, results that are added up (``total += loss``) or collected (``outputs.append(...)``)
keep it for good. The rhythm of allocations does not tell such calls from the layers of a single
one, which keep theirs in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from snapreport.diagnosis.advice.changes import inference
from snapreport.diagnosis.advice.edits import Calls
from snapreport.diagnosis.advice.planning import as_suggestion, situation_of
from snapreport.diagnosis.advice.situation import Situation, graph_calls
from snapreport.diagnosis.allocator_faults import find_captures
from snapreport.diagnosis.finding_tables import site_table, top_table
from snapreport.diagnosis.step_growth import GrowthKind, HeldOver, SiteGrowth, find_step_growth
from snapreport.diagnosis.unreleased import find_unreleased
from snapreport.figures.callsites import name_sites, short_site, site_text
from snapreport.ground.native.columns import is_among
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.diagnoses import Figure, Finding, Severity, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.roles import Iterations
from snapreport.roles.passes import find_passes
from snapreport.roles.steps import find_iterations

_NEARLY_ALL = 0.8
"""Memory grows with calls if at least this part of them keep it, not only the last few."""
_VISIBLE_GRAPHS, _SMALL = 0.01, 1 << 20
"""That is worth a finding from this part of the peak, and these bytes, on."""
_COSTS_GRAPHS = 0.1
"""Worth a warning from this part of the peak on."""


def kept_by_calls(tables: History, device: DeviceFigures) -> tuple[Situation, Calls] | None:
    """Return the calls of a model that keep their graphs, where memory grows with each.

    Returns:
        None where there is a backward pass, or only the last few calls keep theirs, or little.
    """
    if find_passes(device.history, tables).train:
        return None
    situation = situation_of(tables, device)
    if situation is None:
        return None
    calls = graph_calls(situation)
    much = _held(device, calls) >= max(_VISIBLE_GRAPHS * situation.peak, _SMALL)
    grows = calls.kept and calls.held >= _NEARLY_ALL * len(calls.starts)
    return (situation, calls) if grows and much else None


def _held(device: DeviceFigures, calls: Calls) -> int:
    return int(device.history.allocations.block_size[calls.rows].sum())


def kept_graphs(
    tables: History, device: DeviceFigures, situation: Situation, calls: Calls
) -> Finding:
    """Report calls that keep their graphs."""
    peak = device.peak.allocated
    grown = _held(device, calls)
    caller = site_text(tables.stacks, calls.caller) if calls.caller >= 0 else ""
    place = f", made from {short_site(caller)}" if caller else ""
    code = tables.stacks.frames.code(calls.caller) if caller else ""
    line = f" The line reads “{code}”." if code else ""
    failed = bool(device.ooms)
    return Finding(
        "kept-graphs",
        "critical" if failed and grown >= _COSTS_GRAPHS * peak else
        "warning" if grown >= _COSTS_GRAPHS * peak else "note",
        f"{format_bytes(calls.kept)} more stays live with each of {format_count(calls.held)} calls"
        f" of a model{place}",
        "Each call keeps what its backward pass would need, and no backward pass was recorded. The"
        " program holds what the calls returned, in a list or a sum of losses for example, and with"
        f" it all that led to it: {format_bytes(grown)} at the peak.{line} Call the model under"
        " torch.no_grad() or torch.inference_mode(), or keep only numbers (.item()) and copies"
        " without the graph (.detach()).",
        subject=caller,
        evidence=(
            Figure("kept by each call", calls.kept, meaning="the mean at the peak"),
            Figure("calls", len(calls.starts), "count"),
            Figure("calls that keep it at the peak", calls.held, "count"),
            Figure("kept at the peak", grown),
        ),
        tables=(site_table(tables, device.history, calls.rows, "What the calls kept"),),
        suggestions=tuple(as_suggestion(situation, change) for change in inference(situation)),
        view=View("stacks", event=device.peak.event, curve="allocated"),
        bytes=grown,
        per_step=calls.kept,
    )  # fmt: skip


# Findings about memory that stays from step to step: leaks, and what only looks like one.


MIB = 1 << 20
MANY = 1000
"""Steps over which growth is extrapolated: what a short run does before lunch."""
_MATTERS = 0.01
"""Growth is worth a warning if MANY steps would add more than this part of the peak: less is a list
of numbers that somebody keeps, and fails no run."""
_LEAST = 16 * MIB
"""The least that MANY steps must add for a warning, in bytes."""
_VISIBLE = 0.01
"""Apparent growth and held-over memory are mentioned from this part of the peak on."""
_COSTS = 0.1
"""Held-over memory is worth a warning if the peak would be lower by at least this part of it."""
_CAUSED = 0.1
"""A leak of at least this part of what was allocated when a request failed counts as a cause."""
_CAPTURES = 0.8
"""In at least this part of the turns a graph is captured if the turns are captures."""
_SEPARATE = 3
"""Up to this many leaking call sites get a finding each; more mostly have one cause, such as a
graph that is kept."""
_KEY_VALUE = re.compile(
    r"kv_?cache|past_key|key_value|(Dynamic|Static|Hybrid)Cache|cache_utils\.py", re.IGNORECASE
)
_WRITES = (
    " If these are the keys and values that a language model keeps for a text, they are freed with"
    " the text, and this is not a leak."
)
_TRAINS = ("backward", "gradient", "optimizer", "optimizer state")


def find_growth(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings about memory that grows or outlives its step."""
    if not device.recorded:
        return
    yield from _optimizer_state(tables, device)
    turns = find_iterations(device.history, tables)
    yield from find_unreleased(tables, device, turns)
    kept = kept_by_calls(tables, device)
    if kept is not None:
        yield kept_graphs(tables, device, *kept)
    if turns is None:
        return
    growth = find_step_growth(tables, device, turns)
    if kept is not None:  # nothing is said twice
        stack = device.history.allocations.stack
        told = set(stack[kept[1].rows].tolist())
        sites = tuple(site for site in growth.sites if int(stack[site.row]) not in told)
        growth = replace(growth, sites=sites)
    say = _Words(tables, device, turns)
    leaks = growth.of("leak")
    if _captures_in_each(tables, device, turns):
        found = say.visible(leaks)
        if found:
            yield say.captured(found)
        leaks = ()
    caches = [site for site in leaks if say.is_key_value_cache(site)]
    leaks = tuple(site for site in leaks if site not in caches)
    if len(leaks) <= _SEPARATE:
        for site in leaks:
            yield say.leak((site,))
    else:
        yield say.leak(leaks)
    for site in caches:
        yield say.key_value_cache(site)
    for kind in ("buffer", "freed-later", "settled"):
        found = say.visible(growth.of(kind))
        if found:
            yield say.grown(kind, found)
    yield from say.held_over(growth.held_over)


def _captures_in_each(tables: History, device: DeviceFigures, turns: Iterations) -> bool:
    """Whether the turns capture CUDA graphs: what a graph needs then stays as long as it does."""
    captures = find_captures(tables, device)
    place = np.searchsorted(turns.bounds, captures, side="right")
    inside = (place > 0) & (place <= len(turns))
    return len(np.unique(place[inside])) >= _CAPTURES * len(turns)


def _optimizer_state(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Say that state made by an optimizer's first step is not a leak."""
    history, rows = device.history, device.history.allocations
    state = [i for i, each in enumerate(device.categories) if each.name == "optimizer state"]
    kept = (rows.alloc_event >= 0) & (rows.free_requested_event == history.events)
    chosen = np.flatnonzero(kept & is_among(device.category, state))
    held = int(rows.block_size[chosen].sum())
    if held < max(_VISIBLE * device.peak.allocated, MIB):
        return
    first, last = int(rows.alloc_event[chosen].min()), int(rows.alloc_event[chosen].max())
    yield Finding(
        "optimizer-state",
        "note",
        f"{format_bytes(held)} of optimizer state was made during the recording and is kept:"
        " no leak",
        "An optimizer such as Adam makes its state when it is first used, and keeps it for the rest"
        " of the run. So memory rises once, in the first step, and stays higher.",
        evidence=(
            Figure("optimizer state kept", held),
            Figure("allocations", len(chosen), "count"),
            Figure("made from event", first, "event"),
            Figure("to event", last, "event"),
        ),
        tables=(site_table(tables, history, chosen, "Where it was made"),),
        view=View("stacks", event=last, curve="allocated"),
        bytes=held,
    )


@dataclass(frozen=True)
class _Words:
    """Words the findings about one device."""

    tables: History
    device: DeviceFigures
    turns: Iterations

    def name(self, site: SiteGrowth) -> str:
        """Name a call site."""
        rows = np.array([site.row], np.int64)
        return name_sites(self.device.history, self.tables.stacks, rows)[0]

    def is_key_value_cache(self, site: SiteGrowth) -> bool:
        """Whether a call site seems to fill a language model's key-value cache."""
        if self._trains():
            return False
        stacks = self.tables.stacks
        path = stacks.path(int(self.device.history.allocations.stack[site.row]))
        return any(
            _KEY_VALUE.search(stacks.frames.names[frame] + " " + stacks.frames.filenames[frame])
            for frame in path
        )

    def _trains(self) -> bool:
        return any(category.name in _TRAINS for category in self.device.categories)

    def visible(self, sites: Sequence[SiteGrowth]) -> list[SiteGrowth]:
        """Return the sites with enough growth to be mistaken for a leak."""
        least = max(_VISIBLE * self.device.peak.allocated, MIB)
        return [site for site in sites if site.grown >= least]

    def leak(self, sites: Sequence[SiteGrowth]) -> Finding:
        """Report call sites, the fastest first, that keep more with every step."""
        top, name = sites[0], self.name(sites[0])
        per_step, grown = sum(each.per_step for each in sites), sum(each.grown for each in sites)
        short = short_site(name)
        who = short if len(sites) == 1 else f"{len(sites)} call sites, most of it by {short}"
        every = "with every step" if top.growing >= top.turns - 1 else "from step to step"
        title = f"{format_bytes(per_step)} more stays live {every}, made by {who}"
        return Finding(
            "leak",
            self._severity(per_step, grown),
            title,
            f"What was made there and is live between steps grew in"
            f" {format_count(top.growing)} of the last {format_count(top.turns)} steps. None"
            " or hardly any of it was freed by the end of the recording."
            f" At this rate {format_count(MANY)} more steps would need"
            f" {format_bytes(per_step * MANY)}."
            + ("" if self._trains() else _WRITES)
            + f" The steps are known {self.turns.how}.",
            subject=name,
            evidence=self._evidence(sites, per_step, grown),
            tables=(self._table(sites),),
            suggestions=(
                Suggestion(
                    "leak",
                    "Find what still refers to these tensors, often a list, a dict or an attribute"
                    " to which each step adds. Delete them there when they are no longer"
                    " needed. For logging, keep numbers (.item()) or copies on the CPU"
                    " (.detach().cpu()): a tensor that needs gradients keeps all that its backward"
                    f" pass needs. {format_bytes(grown)} were added in this recording.",
                    "total += loss.item()",
                ),
            ),
            view=self._view(top),
            bytes=grown,
            per_step=per_step,
        )

    def _severity(self, per_step: int, grown: int) -> Severity:
        if self.device.ooms and grown >= _CAUSED * self.device.ooms[-1].allocated:
            return "critical"
        matters = max(_MATTERS * self.device.peak.allocated, _LEAST)
        return "warning" if per_step * MANY >= matters else "note"

    def _since(self, site: SiteGrowth) -> Figure:
        turn = min(site.since, len(self.turns) - 1)
        return Figure("grows since event", int(self.turns.starts[turn]), "event")

    def _evidence(
        self, sites: Sequence[SiteGrowth], per_step: int, grown: int
    ) -> tuple[Figure, ...]:
        top = sites[0]
        return (
            Figure("growth per step", per_step, meaning="bytes of blocks added in a step"),
            Figure(
                "requested per step",
                sum(site.requested_per_step for site in sites),
                meaning="bytes that the program asked for, before rounding up to blocks",
            ),
            Figure(
                "allocations per step",
                round(sum(site.count_per_step for site in sites), 2),
                "count",
            ),
            Figure("grown in the recording", grown),
            Figure("steps watched", top.turns, "count"),
            Figure("steps that grew", top.growing, "count"),
            self._since(top),
            Figure(f"after {format_count(MANY)} more steps", per_step * MANY),
            *self._steps(),
        )

    def _steps(self) -> tuple[Figure, ...]:
        return (
            Figure("steps of the program", len(self.turns), "count", self.turns.how),
            Figure(
                "confidence in the steps",
                round(self.turns.confidence, 2),
                "share",
                "100% where the file names the steps; less where they are inferred",
            ),
        )

    def _table(self, sites: Sequence[SiteGrowth]) -> Table:
        ordered = sorted(sites, key=lambda site: -site.grown)
        rows = np.array([site.row for site in ordered], np.int64)
        names = name_sites(self.device.history, self.tables.stacks, rows)
        return top_table(
            "What grew",
            {
                "call site": "text", "at first": "bytes", "at last": "bytes", "per step": "bytes",
                "allocations per step": "count",
            },
            [
                (name, site.first, site.last, site.per_step, round(site.count_per_step, 2))
                for name, site in zip(names, ordered, strict=True)
            ],
        )  # fmt: skip

    def _view(self, site: SiteGrowth) -> View:
        known = self.device.history.allocations.stack[site.row] >= 0
        name = self.name(site).split("  ")[0] if known else ""
        return View("stacks", event=self.turns.end - 1, curve="allocated", search=name)

    def key_value_cache(self, site: SiteGrowth) -> Finding:
        """Report a growing key-value cache, as is normal while text is generated."""
        name = self.name(site)
        return Finding(
            "growing-buffer",
            "note",
            f"{format_bytes(site.per_step)} more with every step in what seems to be a"
            " key-value cache",
            f"A language model keeps the keys and values of all the text that it has written."
            f" {short_site(name)} added {format_bytes(site.grown)} of them here. That is not a"
            " leak if they are freed with the text, which this recording does not show: it ends"
            " before.",
            subject=name,
            evidence=self._evidence((site,), site.per_step, site.grown),
            tables=(self._table((site,)),),
            view=self._view(site),
            bytes=site.grown,
        )

    def captured(self, sites: Sequence[SiteGrowth]) -> Finding:
        """Report what captured graphs keep: it grows with the graphs, not with their replays."""
        grown, per_step = sum(site.grown for site in sites), sum(site.per_step for site in sites)
        return Finding(
            "graph-capture",
            "note",
            f"{format_bytes(per_step)} more is kept with every CUDA graph that is captured",
            "Each of these steps captures a CUDA graph. A graph needs its input, its results and"
            " its libraries' workspaces as long as it exists, so they are no leak. Replaying it"
            " adds nothing.",
            evidence=self._evidence(sites, per_step, grown),
            tables=(self._table(sites),),
            suggestions=(
                Suggestion(
                    "fewer-graphs",
                    "Capture graphs for fewer shapes, and pad input to the next larger one:"
                    f" {format_bytes(per_step)} stay live for each graph. Warm all of them up on"
                    " the same side stream, as libraries keep a workspace for each stream.",
                ),
            ),
            view=self._view(sites[0]),
            bytes=grown,
        )

    def grown(self, kind: GrowthKind, sites: Sequence[SiteGrowth]) -> Finding:
        """Report growth that is not a leak as far as the recording shows."""
        grown = sum(site.grown for site in sites)
        code, title, explanation = _NO_LEAK[kind]
        top = max(sites, key=lambda site: site.grown)
        return Finding(
            code,
            "note",
            title.format(format_bytes(grown)),
            explanation,
            evidence=(
                Figure("grown in the recording", grown),
                self._since(top),
                *self._steps(),
            ),
            tables=(self._table(sites),),
            view=self._view(top),
            bytes=grown,
        )

    def held_over(self, held: HeldOver) -> Iterator[Finding]:
        """Report results of one step that are still live in the next."""
        peak = self.device.peak.allocated
        if held.typical < max(_VISIBLE * peak, MIB):
            return
        # Without training it may be input of the next step.
        costs = held.frees.expected >= _COSTS * peak and self._trains()
        effect = (
            " Freed in time, the peak of these steps would be"
            f" {format_bytes(held.frees.expected)} lower."
            if held.frees.expected
            else " It does not raise the peak of these steps."
        )
        suggestion = Suggestion(
            "free-earlier",
            "Delete the variables that hold results of the last step (outputs, loss, the"
            " batch) before the next one begins, or make them in a function: a variable in a loop"
            " keeps its tensor until another is assigned. The peak of these steps would be"
            f" {format_bytes(held.frees.expected)} lower, added up again without them.",
            "del outputs, loss",
            frees=held.frees,
        )
        yield Finding(
            "outlives-step",
            "warning" if costs else "note",
            f"{format_bytes(held.typical)} made in one step is still live in the next",
            "This memory is live between two steps: made in the first, and freed only in a later"
            f" one.{effect} The steps are known {self.turns.how}.",
            evidence=(
                Figure("live between steps", held.typical, meaning="the median over them"),
                Figure("peak falls by", held.frees.expected),
                Figure("allocations", len(held.rows), "count"),
                *self._steps(),
            ),
            tables=(
                site_table(
                    self.tables,
                    self.device.history,
                    held.rows,
                    "What outlived its step, over all of them",
                ),
            ),
            suggestions=(suggestion,) if held.frees.expected >= _VISIBLE * peak else (),
            view=View("live", event=int(self.turns.bounds[len(self.turns) // 2]) - 1),
            bytes=max(held.frees.expected, held.typical),
        )


_NO_LEAK = {
    "buffer": (
        "growing-buffer",
        "{} more in buffers that are replaced in every step",
        (
            "There are no more of these than before, but each new one is larger than the one that"
            " it replaces. It may be a tensor that is appended to (torch.cat), or input that gets"
            " longer."
        ),
    ),
    "freed-later": (
        "freed-later",
        "{} grew from step to step and was freed in the end: not a leak",
        (
            "What was made there grew with nearly every step, and was freed after the last of"
            " them. Results that are collected, and the keys and values of a language model,"
            " grow like this: the more steps, the more they need."
        ),
    ),
    "settled": (
        "settling-cache",
        "{} grew in the first steps and then stayed: not a leak so far",
        (
            "What was made there grew after the first step, and no longer grew towards the end"
            " of the recording. Caches and buffers that are made when first needed grow like this."
        ),
    ),
}
