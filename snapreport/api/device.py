"""What one device of a snapshot answers, from moments to plans: the Python interface."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.planning import make_plan
from snapreport.diagnosis.advice.situation import look_at
from snapreport.diagnosis.card_fit import fit_card
from snapreport.diagnosis.conclude import diagnose
from snapreport.diagnosis.trust import judge_recording
from snapreport.figures.allocator.factual import ModelledDevice, failed_capacity, model_device
from snapreport.figures.allocator.settings import replay_settings, table_of_settings
from snapreport.figures.callsites import find_call_tree, name_sites
from snapreport.figures.curves import find_amounts, find_profile, time_at
from snapreport.figures.grouping import (
    find_changes,
    find_groups,
    find_lines,
    label_allocations,
    label_forward,
)
from snapreport.figures.moments import (
    check_event,
    entry_at,
    event_at_time,
    event_of_allocation,
    find_allocation,
    find_stage,
    peak_between,
)
from snapreport.figures.questions import change_between, find_signed
from snapreport.figures.uses import curves_statistics, evidence_texts
from snapreport.figures.what_if import (
    find_held,
    find_members,
    find_what_if,
    find_without,
    matching_names,
)
from snapreport.ground.cards import CardWanted, wanted_card
from snapreport.ground.errors import AllocatorSettingsError, MomentError, PlanError
from snapreport.ground.native.columns import Outline
from snapreport.ground.progress import Progress, silent
from snapreport.ground.safe_text import html_table, rows_of, visible
from snapreport.ground.units import format_bytes, parse_size
from snapreport.history.allocator_settings import parse_settings
from snapreport.history.segments import lives_of
from snapreport.model.answers import (
    CardFit,
    CurveStatistics,
    Group,
    GroupChange,
    LineUse,
    LiveRows,
    Parts,
    PeakWithout,
    Plan,
    Profile,
    TraceEntry,
    WhatIf,
)
from snapreport.model.asked import (
    COUNTED,
    CURVES,
    Address,
    MomentWanted,
    Question,
    event_in_words,
    parse_marker,
)
from snapreport.model.diagnoses import CurvePeak, Diagnosis, Trust
from snapreport.model.findings import Amounts, CallTree, DeviceFigures, StageUse
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.replays import FactualReplay, OtherSettings, SegmentLives
from snapreport.model.roles import AllocationsWithRoles, Category, Roles, Rule, Steps, with_roles
from snapreport.model.snapshot import NO_ID, FrameTable
from snapreport.roles.frames import classify_frames, tree_frames
from snapreport.roles.stack_kinds import classify

Marker = int | str
"""An event, or a time, ``start``, ``peak`` or ``end``."""
Span = tuple[Marker, Marker]


class Device:
    """One device's memory over the recording, and the answers to questions about it.

    All sizes are bytes. An event is the index of a trace event; -1 is the start.
    """

    def __init__(
        self,
        file: History,
        figures: DeviceFigures,
        known: dict[DeviceFigures, Diagnosis] | None = None,
    ) -> None:
        """Wrap a device; ``Snapshot.device()`` is the usual way to get one.

        Args:
            file: the tables of the file.
            figures: of the device.
            known: the file's diagnoses so far; None to begin without any.
        """
        self.file = file
        self.figures = figures
        self._known = {} if known is None else known

    @property
    def name(self) -> str:
        """The device's name, such as ``cuda:0``."""
        return str(self.figures.device)

    @property
    def history(self) -> DeviceHistory:
        """The columns: allocations, other events, segments, stages."""
        return self.figures.history

    @cached_property
    def allocations(self) -> AllocationsWithRoles:
        """Every allocation as NumPy columns, in order of allocation, with its role as text."""
        return with_roles(self.history.allocations, self.roles)

    @property
    def roles(self) -> Roles:
        """What each allocation is for, inferred from call stacks and lifetimes, with evidence."""
        return self.figures.roles

    @property
    def events(self) -> int:
        """Number of trace events."""
        return self.history.events

    @property
    def peak(self) -> Amounts:
        """Every amount at the first event of the allocated peak."""
        return self.figures.peak

    @property
    def peaks(self) -> dict[str, CurvePeak]:
        """The peak of each known curve, by name."""
        return self.figures.peaks

    @property
    def stages(self) -> tuple[StageUse, ...]:
        """Every annotated stage with its memory at start, peak and end."""
        return self.figures.stages

    @property
    def steps(self) -> Steps | None:
        """The steps of the program's loop, their kinds and which has the peak; None if unknown."""
        return self.figures.steps

    @property
    def times(self) -> NDArray[np.int64]:
        """Each event's time in microseconds since 1970, NO_TIME where unknown; (events,)."""
        return self.figures.times

    def curve(self, name: str) -> NDArray[np.int64]:
        """Return a curve: bytes after each event; int64, shape (events + 1,), start first.

        Args:
            name: ``allocated``, ``requested``, ``active`` or ``reserved``, which is not known
                before the event ``figures.reserved_from``.

        Raises:
            ValueError: there is no such curve; profiles have no ``reserved`` curve.
        """
        if name not in self.figures.curves:
            raise ValueError(f"curve is {name!r}, not one of {', '.join(self.figures.curves)}")
        return self.figures.curves[name]

    @cached_property
    def segments(self) -> SegmentLives:
        """Every segment; the ones that exist after event s have start_event <= s < end_event."""
        return lives_of(self.history)

    @cached_property
    def frame_kinds(self) -> NDArray[np.int8]:
        """Each frame's kind, from code outside PyTorch to machinery; shape (n_frames,)."""
        return classify_frames(self.file.stacks.frames)

    @property
    def tree_frames(self) -> FrameTable:
        """The frames as they are shown in trees: C++ is called by what it does."""
        return tree_frames(self.file.stacks)

    def site_names(self, rows: NDArray[np.int64]) -> list[str]:
        """Return each allocation's call site as ``function  file:line``, or why it has none."""
        return name_sites(self.history, self.file.stacks, rows)

    def forward_lines(self, rows: NDArray[np.int64]) -> list[str | None]:
        """Return the forward line behind each allocation, None where PyTorch noted none."""
        number, names = label_forward(self.file.stacks)
        found = number[self.allocations.stack[rows]].tolist()
        return [names[each] if each else None for each in found]

    def metadata(self, rows: NDArray[np.int64]) -> list[str | None]:
        """Return what the program said of each allocation, None where it said nothing."""
        return self._texts(self.allocations.metadata[rows])

    def compile_contexts(self, rows: NDArray[np.int64]) -> list[str | None]:
        """Return the compiled graph that made each allocation, None where PyTorch noted none."""
        return self._texts(self.allocations.compile_context[rows])

    def _texts(self, ids: NDArray[np.int32]) -> list[str | None]:
        texts = self.file.strings
        return [None if each == NO_ID else texts[each] for each in ids.tolist()]

    def times_of(self, events: NDArray[np.int64]) -> list[int | None]:
        """Return the times of some events in microseconds since 1970, None where unknown."""
        return [time_at(self.times, event) for event in events.tolist()]

    @property
    def diagnosis(self) -> Diagnosis:
        """What went wrong, whether the recording can be trusted, and what to do."""
        return diagnose(self.figures, self.file, self._known)

    @cached_property
    def trust(self) -> Trust:
        """What the recording covers, what it lost, and how exact its figures are."""
        return judge_recording(self.file, self.figures)

    def statistics(self, curve: str = "allocated") -> CurveStatistics:
        """Return a curve's minimum, average over time, maximum, and values at start and end.

        Raises:
            MomentError: reserved memory is not known at all events.
        """
        values = self.curve(curve)
        self._check_known(curve, START)
        return curves_statistics({curve: values}, self.times)[curve]

    def at(
        self,
        event: int | None = None,
        *,
        time_us: int | None = None,
        stage: str | None = None,
        between: tuple[int, int] | None = None,
        alloc: Address | int | None = None,
        free: Address | int | None = None,
        curve: str = "allocated",
    ) -> Moment:
        """Return a moment; without arguments, the curve's peak.

        Args:
            event: -1 is the start.
            time_us: the last event at or before this time, since 1970 or since the first event.
            stage: the peak within a stage: its name, ``name[2]`` for the second, or part of it.
            between: the peak between two events, both included.
            alloc: after the allocation at an address, or at ``(address, version)``.
            free: after the free of an allocation was requested; in the same form.
            curve: what the moment counts.

        Raises:
            MomentError: there is no such moment or curve here, the curve is not known there, or
                more than one was named.
        """
        return self.moment(MomentWanted(event, time_us, stage, between, alloc, free, curve))

    def moment(self, wanted: MomentWanted) -> Moment:
        """Return the moment that ``wanted`` names; raises as ``at()``."""
        curve = wanted.curve
        if curve in CURVES and curve not in self.figures.curves:
            raise MomentError(
                f"{self.name} has no {curve} bytes: no allocator reserved memory in this file."
            )
        values = self.curve(curve)
        first = None
        if wanted.event is not None:
            found = check_event(wanted.event, self.events)
        elif wanted.time_us is not None:
            found = event_at_time(self.times, wanted.time_us)
        elif wanted.stage is not None:
            stage = self.stages[find_stage(self.stages, wanted.stage)]
            first = max(stage.start_event - 1, START)
            found = peak_between(values, first, max(stage.end_event - 1, first))
        elif wanted.between is not None:
            first = wanted.between[0]
            found = peak_between(values, *wanted.between)
        elif wanted.alloc is not None:
            found = event_of_allocation(self.history, self._row(wanted.alloc), "alloc")
        elif wanted.free is not None:
            found = event_of_allocation(self.history, self._row(wanted.free), "free")
        elif self.figures.recorded:
            first, found = START, int(values.argmax()) - 1
        else:
            found = self.events - 1
        self._check_known(curve, found if first is None else first)
        return Moment(self, found, curve)

    def ask(
        self,
        *,
        made: Span | None = None,
        freed: Span | None = None,
        alive: Marker | Span | None = None,
        curve: str = "allocated",
    ) -> Asked:
        """Return the allocations that were made, freed and alive at some moments; all have to hold.

        A marker is an event, whose state counts (-1 is the start), a time such as ``"1.5s"``,
        ``"start"``, ``"end"``, ``"peak"``, that of the curve, or the name of a stage: its start as
        the first of two markers, else its end.

        Args:
            made: made after the first marker and by the second.
            freed: freed after the first marker and by the second, as the curve counts it.
            alive: alive at this marker; or at both of these, and so throughout.
            curve: ``allocated``, ``requested`` or ``active``.

        Raises:
            MomentError: nothing is asked, there is no such moment, markers are in the wrong order,
                the device has no history, or its allocations do not add up to this curve.
        """
        if made is freed is alive is None:
            raise MomentError("say when allocations were made, freed or alive; all three are open.")

        def events(span: Span | None) -> tuple[int, int] | None:
            return None if span is None else self._span(span, curve)

        if isinstance(alive, (int, str)):
            _, at = self._span(("start", alive), curve)
            alive = at, at
        asked = Question(curve, events(made), events(freed), events(alive))
        if asked.made and asked.alive and asked.alive[0] < asked.made[0]:
            after, before = event_in_words(asked.made[0]), event_in_words(asked.alive[0])
            raise MomentError(f"what is made after {after} is not alive at {before}, before it.")
        return Asked(self, asked)

    def changed(self, first: Marker, last: Marker, *, curve: str = "allocated") -> Changed:
        """Return what came between two moments and stayed, and what went.

        Args:
            first: a marker, as in ``ask()``.
            last: another one, not before it.
            curve: ``allocated``, ``requested`` or ``active``.

        Raises:
            MomentError: as from ``ask()``.
        """
        return Changed(self, *self._span((first, last), curve), curve)

    def categories(
        self, rules: Sequence[Rule] | None = None
    ) -> tuple[NDArray[np.int32], tuple[Category, ...]]:
        """Return each allocation's category, and the categories with the rules that matched.

        Args:
            rules: in order, the first that matches wins; None for the built-in ones.
        """
        return classify(self.file, self.history, rules)

    def profile(
        self,
        by: str = "category",
        rules: Sequence[Rule] | None = None,
        curve: str = "allocated",
        points: int = 0,
    ) -> Profile:
        """Return memory by group over time; at every event the groups sum to the curve.

        Args:
            by: one of ``GROUPINGS``.
            rules: for ``category``, instead of the built-in ones.
            curve: ``allocated``, ``requested`` or ``active``.
            points: return about this many events, the maxima included; 0 for every event.
        """
        number, names = label_allocations(self.file, self.history, by, rules)
        texts = [""] * len(names)
        if by == "category":
            texts = [category.rule for category in self.categories(rules)[1]]
        elif by == "role":
            texts = evidence_texts(self.roles)
        return find_profile(self.history, number, names, texts, curve, points)

    def what_if(
        self, by: str = "site", curve: str = "allocated", rules: Sequence[Rule] | None = None
    ) -> tuple[WhatIf, ...]:
        """Return for every group the peak without its allocations, the lowest peak first.

        Args:
            by: one of ``WHAT_IF_GROUPINGS``. A stage has all that was allocated in it and in
                the stages inside it; stages that share a name are taken away together.
            curve: ``allocated``, ``requested`` or ``active``.
            rules: for ``category``, instead of the built-in ones.

        Raises:
            NotEnoughMemoryError: by stage, and far too many stages are nested.
            ValueError: there is no such grouping or curve.
        """
        members = find_members(self.file, self.history, by, rules)
        return find_what_if(self.history, members, Outline(self._counted(curve)), curve)

    def peak_without(
        self,
        *patterns: str,
        by: str = "site",
        curve: str = "allocated",
        rules: Sequence[Rule] | None = None,
    ) -> PeakWithout:
        """Return the peak without all groups whose names match, and what holds the memory then.

        Args:
            patterns: parts of names, globs, or ``/regex/``.
            by: as for ``what_if``: call sites are named ``function  file:line``.
            curve: as for ``what_if``.
            rules: as for ``what_if``.

        Raises:
            NotEnoughMemoryError: as for ``what_if``.
            PatternError: a pattern is invalid, or matches nothing.
            ValueError: there is no such grouping or curve.
        """
        members = find_members(self.file, self.history, by, rules)
        outline = Outline(self._counted(curve))
        found = find_without(self.history, members, outline, patterns, curve)
        taken = matching_names(members[2], patterns)
        held = find_held(self.history, self.file.stacks, members, found.peak_event, taken, curve)
        return PeakWithout(found, tuple(taken), held)

    def plan(self, *, fit: int | str | None = None, free: int | str | None = None) -> Plan:
        """Return the cheapest changes that lower the allocated peak to a target.

        If none do, it returns the changes with the lowest peak, and ``reached`` is ``no``.

        Args:
            fit: the target, in bytes or as text, ``"24GB"``.
            free: how far the peak should fall, in bytes or as text.

        Raises:
            PlanError: neither or both are given, one is not a size, ``free`` is more than the peak,
                or there is no history to try changes on.
        """
        if (fit is None) == (free is None):
            raise PlanError("a plan needs either fit=SIZE or free=SIZE; give one of them.")
        try:
            size = parse_size(fit if fit is not None else free)  # type: ignore[arg-type]
        except ValueError as error:
            raise PlanError(f"{error}.") from None
        if not self.figures.recorded:
            raise PlanError(
                f"{self.name} has no recorded history in this file, so no change can be tried;"
                " record the program with snapreport record."
            )
        curve = self.curve("allocated")
        peak = int(curve.max())
        if free is not None and size > peak:
            raise PlanError(
                f"{format_bytes(size)} cannot be freed: {self.name} has {format_bytes(peak)}"
                " allocated at its peak."
            )
        target = size if fit is not None else peak - size
        return make_plan(look_at(self.file, self.history), target)

    def fits(self, card: str, allow: int | str | None = None) -> CardFit:
        """Say whether the recorded program fits on a card, in figures and as ``text``.

        Args:
            card: ``h100-80``, or a size such as ``24GB``.
            allow: the part of the card that PyTorch's allocator cannot use, in bytes or as text,
                ``2GiB``; None for what was measured while recording, else the usual amount.

        Raises:
            CardError: there is no such card, or ``allow`` is not a size.
        """
        wanted = wanted_card(card, allow)
        assert wanted is not None
        return self.fits_wanted(wanted)

    def fits_wanted(self, card: CardWanted) -> CardFit:
        """Do the same as ``fits()`` for a card that is already parsed."""
        return fit_card(self.file, self.figures, card)

    @property
    def _modelled(self) -> ModelledDevice:
        found = model_device(self.file, self.history)
        if found is None:
            raise AllocatorSettingsError(
                f"{self.name} of {self.file.source.name} has nothing to replay: a replay needs the"
                " events of a GPU and its segments at the end."
            )
        return found

    @property
    def replay(self) -> FactualReplay:
        """Replay the recording through a model of PyTorch's allocator, and compare the two.

        Raises:
            AllocatorSettingsError: the device has no events or no segments.
        """
        return self._modelled.factual

    def other_settings(
        self,
        *settings: str,
        capacity: int | str | None = None,
        progress: Progress = silent,
    ) -> OtherSettings:
        """Replay the recording under other settings of the allocator.

        The results are not measured. There are results only if the model, under the recorded
        settings, puts every allocation at its recorded address.

        Args:
            settings: as in ``PYTORCH_ALLOC_CONF``, ``expandable_segments:True``; without any,
                common ones are compared. The recorded settings always come first.
            capacity: the most that all segments may have together, ``40GiB`` or bytes; None for
                what the card gave, if a request failed.
            progress: called with what is being done.

        Raises:
            AllocatorSettingsError: PyTorch would refuse the settings, or they are not modelled; or
                the device has no events or no segments.
            ValueError: ``capacity`` is not a size.
        """
        modelled = self._modelled
        wanted = table_of_settings(modelled.settings)
        if settings:
            asked = dict.fromkeys(map(parse_settings, settings))
            wanted = [modelled.settings, *(each for each in asked if each != modelled.settings)]
        limit = failed_capacity(modelled) if capacity is None else parse_size(capacity)
        return replay_settings(modelled, wanted, limit, progress)

    def _check_known(self, curve: str, first: int) -> None:
        """Refuse a curve that is not known from an event on."""
        known = self.figures.reserved_from
        if curve != "reserved" or known is None or first >= known:
            return
        when = "is not known" if known >= self.events else f"is only known from event {known:,} on"
        raise MomentError(f"reserved memory of {self.name} {when}: events of segments are missing.")

    def _span(self, span: Span, curve: str) -> tuple[int, int]:
        """Return the events of two markers."""
        if curve not in COUNTED:
            known = ", ".join(COUNTED)
            raise MomentError(f"allocations do not add up to {curve} bytes; name one of {known}.")
        if not self.figures.recorded:
            raise MomentError(f"{self.name} has no recorded history: nothing is made or freed.")
        first, last = self._event(span[0], curve, 0), self._event(span[1], curve, 1)
        if last < first:
            early, late = event_in_words(last), event_in_words(first)
            raise MomentError(f"{early} is before {late}; name the earlier one first.")
        return first, last

    def _event(self, marker: Marker, curve: str, side: int) -> int:
        """Return the event of a marker; ``side``: 0 for the first of a span, 1 for the last."""
        found = parse_marker(marker)
        if isinstance(found, int):
            return check_event(found, self.events)
        if not isinstance(found, str):
            return event_at_time(self.times, found.time_us or 0)
        known = {"start": START, "peak": self.peaks[curve].event, "end": self.events - 1}
        if found in known:
            return known[found]
        try:
            stage = self.stages[find_stage(self.stages, found)]
        except MomentError as error:
            wanted = "an event, a time, start, peak or end"
            raise MomentError(f"{found!r} is not {wanted}, and {error}") from None
        return max((stage.start_event, stage.end_event)[side] - 1, START)

    def _counted(self, curve: str) -> NDArray[np.int64]:
        if curve == "reserved":
            raise ValueError("allocations do not add up to the reserved curve; name another.")
        return self.curve(curve)

    def _row(self, wanted: Address | int) -> int:
        address, version = wanted if isinstance(wanted, tuple) else (wanted, None)
        return find_allocation(self.history, address, version)

    def __repr__(self) -> str:
        return visible(f"<Device {self.name} of {self.file.source.name}>")

    def _repr_html_(self) -> str:
        found = self.figures
        amounts = html_table(*rows_of((found.start, found.peak, found.end)))
        answer = escape(visible(found.answer))
        return f"<div><strong>{escape(repr(self)[1:-1])}</strong><p>{answer}</p>{amounts}</div>"


class Asked:
    """The allocations of a device that answer a question about their lifetimes."""

    def __init__(self, device: Device, question: Question) -> None:
        """Take the question; ``Device.ask()`` is the usual way to get one."""
        self.device = device
        self.question = question
        self.curve = question.curve

    @cached_property
    def allocations(self) -> LiveRows:
        """The allocations, largest first."""
        return _largest_first(self.device, self.question)

    @property
    def bytes(self) -> int:
        """The bytes of all of them."""
        return int(self.allocations.bytes.sum())

    def tree(self, *, upward: bool = False, folded: bool = False) -> CallTree:
        """Return the call tree, whose root has the bytes of all, to the byte.

        Args:
            upward: begin at the allocating frame instead of the outermost one.
            folded: leave out library-internal frames.
        """
        history, stacks = self.device.history, self.device.file.stacks
        return find_call_tree(history, stacks, self.question, upward=upward, folded=folded)

    def lines(
        self, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> tuple[LineUse, ...]:
        """Return bytes by source line, most first: the line of the innermost matching frame.

        Args:
            include: files to look for: parts of names, globs, or ``/regex/``; without any, the
                line is the call site's.
            exclude: files whose frames to skip, in the same form.

        Raises:
            PatternError: a pattern is invalid.
        """
        history, stacks = self.device.history, self.device.file.stacks
        return find_lines(history, stacks, self.question, include, exclude)

    def by(self, grouping: str, rules: Sequence[Rule] | None = None) -> tuple[Group, ...]:
        """Return them grouped by one of ``GROUPINGS``, most bytes first.

        Raises:
            ValueError: there is no such grouping.
        """
        device = self.device
        return find_groups(device.file, device.history, self.question, grouping, rules)

    def parts(self) -> Parts:
        """Return how much of it is from before the recording, and how much is not."""
        found = self.allocations
        old = self.device.allocations.alloc_event[found.rows] < 0
        return Parts(
            baseline_bytes=int(found.bytes[old].sum()),
            baseline_count=int(old.sum()),
            dynamic_bytes=int(found.bytes[~old].sum()),
            dynamic_count=int((~old).sum()),
        )

    def __repr__(self) -> str:
        return f"<Asked {self.device.name} {self.question}: {self.bytes:,} {self.curve} bytes>"

    def _repr_html_(self) -> str:
        rows = self.by("stack")
        table = html_table(*rows_of(rows)) if rows else ""
        return f"<div><strong>{escape(repr(self)[1:-1])}</strong>{table}</div>"


class Changed:
    """What came and what went on a device between two events: the change of a curve."""

    def __init__(self, device: Device, first: int, last: int, curve: str) -> None:
        """Name the events; ``Device.changed()`` is the usual way to get one."""
        self.device = device
        self.first = first
        self.last = last
        self.curve = curve
        came, went = change_between(first, last, curve)
        self.came = Asked(device, came)
        """Made between them and still alive at the last."""
        self.went = Asked(device, went)
        """Alive at the first and freed between them."""

    @property
    def bytes(self) -> int:
        """What came minus what went: the change of the curve, to the byte."""
        return self.came.bytes - self.went.bytes

    @cached_property
    def allocations(self) -> LiveRows:
        """Both, largest first; the bytes of what went are negative."""
        return _largest_first(self.device, self.came.question, self.went.question)

    def tree(self, *, upward: bool = False, folded: bool = False) -> CallTree:
        """Return the call tree of the change, in which nodes that lost memory are negative.

        Args:
            upward: begin at the allocating frame instead of the outermost one.
            folded: leave out library-internal frames.
        """
        history, stacks = self.device.history, self.device.file.stacks
        both = self.came.question, self.went.question
        return find_call_tree(history, stacks, *both, upward=upward, folded=folded)

    def by(
        self, grouping: str = "site", rules: Sequence[Rule] | None = None
    ) -> tuple[GroupChange, ...]:
        """Return the changes grouped by one of ``GROUPINGS``, the largest first.

        Raises:
            ValueError: there is no such grouping.
        """
        device, span = self.device, (self.first, self.last)
        return find_changes(device.file, device.history, span, grouping, self.curve, rules)

    def __repr__(self) -> str:
        name, span = self.device.name, f"{self.first} to {self.last}"
        return f"<Changed {name} events {span}: {self.bytes:+,} {self.curve} bytes>"

    def _repr_html_(self) -> str:
        rows = self.by()
        table = html_table(*rows_of(rows)) if rows else ""
        return f"<div><strong>{escape(repr(self)[1:-1])}</strong>{table}</div>"


def _largest_first(device: Device, *asked: Question) -> LiveRows:
    rows, held = find_signed(device.history.allocations, *asked)
    order = np.lexsort((rows, -np.abs(held)))
    return LiveRows(rows[order], held[order])


class Moment(Asked):
    """What is live on a device after one event."""

    def __init__(self, device: Device, event: int, curve: str) -> None:
        """Name a moment; ``Device.at()`` is the usual way to get one."""
        # Reserved memory belongs to no allocation.
        counted = "active" if curve == "reserved" else curve
        super().__init__(device, Question(counted, alive=(event, event)))
        self.event = event
        self.curve = curve

    @property
    def time_us(self) -> int | None:
        """Microseconds since 1970, None where unknown."""
        return time_at(self.device.times, self.event)

    @cached_property
    def amounts(self) -> Amounts:
        """Requested, allocated, active, reserved, slack, inactive and fragmented bytes."""
        device = self.device
        return find_amounts(device.history, device.figures.curves, device.times, self.event)

    @property
    def bytes(self) -> int:
        """The curve's value."""
        return int(self.device.curve(self.curve)[self.event + 1])

    def live(self) -> LiveRows:
        """Return the live allocations, largest first."""
        return self.allocations

    def entry(self) -> TraceEntry | None:
        """Return the trace entry of this moment's event; None at the start."""
        return entry_at(self.device.history, self.event)

    def __repr__(self) -> str:
        return f"<Moment {self.device.name} event {self.event}: {self.bytes:,} {self.curve} bytes>"

    def _repr_html_(self) -> str:
        held = ((self.amounts,), self.by("stack"))
        tables = "".join(html_table(*rows_of(rows)) for rows in held if rows)
        return f"<div><strong>{escape(repr(self)[1:-1])}</strong>{tables}</div>"
