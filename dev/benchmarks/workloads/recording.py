"""Writes a recording of many rounds as a stream: memory holds one round, whatever the length."""

from __future__ import annotations

from pickle import APPEND, APPENDS, MARK, SETITEMS
from typing import Any, BinaryIO

from dev.benchmarks.workloads.drift import Layout, Times
from dev.benchmarks.workloads.lines import Line, Lines
from dev.benchmarks.workloads.opcodes import BATCH, Framer, Memo
from dev.benchmarks.workloads.rounds import MARKER, Round, Use, make_round, read_settings

Snapshot = dict[str, Any]


class WorkloadError(Exception):
    """A snapshot cannot be repeated; the message says why."""


class Recording:
    """A recording of many rounds, made of a snapshot.

    Args:
        snapshot: as loaded from a file or made by the simulator; it is not changed.
        rounds: how often its traces are played.
        seed: of all that is drawn.

    Raises:
        WorkloadError: there is no trace to repeat.
    """

    def __init__(self, snapshot: Snapshot, rounds: int, seed: int = 1) -> None:
        if not isinstance(snapshot, dict) or not any(snapshot.get("device_traces", ())):
            raise WorkloadError("the snapshot has no trace to repeat.")
        if rounds < 1:
            raise WorkloadError("there must be one round at least.")
        self.snapshot, self.rounds, self.seed = snapshot, rounds, seed
        settings = read_settings(snapshot)
        self.played: dict[int, Round] = {}
        for device, trace in enumerate(snapshot["device_traces"]):
            if trace:
                own = [each for each in snapshot["segments"] if each["device"] == device]
                self.played[device] = make_round(device, trace, own, settings)
        self.annotations: list[dict[str, Any]] = snapshot.get("external_annotations", [])
        recorded = {
            event["time_us"]
            for events in (*snapshot["device_traces"], self.annotations)
            for event in events
            if "time_us" in event
        }
        self.times = Times(recorded, rounds, seed)

    @property
    def events(self) -> int:
        """How many events are written, over all devices."""
        return sum(
            len(played.events) + (self.rounds - 1) * len(played.again)
            for played in self.played.values()
        )

    def of_length(self, events: int) -> Recording:
        """Return one with as few rounds as give so many events."""
        once = sum(len(played.events) for played in self.played.values())
        more = sum(len(played.again) for played in self.played.values())
        return Recording(self.snapshot, 1 + max(-(-(events - once) // more), 0), self.seed)

    def write(self, out: BinaryIO) -> None:
        """Write the pickle."""
        framer, memo = Framer(out), Memo()
        framer.write(memo.new_dict() + MARK)
        for key, value in self.snapshot.items():
            framer.write(memo.word(key))
            if key == "segments":
                _write_list(framer, memo, self._segments())
            elif key == "device_traces":
                self._write_traces(framer, memo)
            elif key == "external_annotations":
                self._write_annotations(framer, memo)
            else:
                framer.write(memo.value(value))
        framer.write(SETITEMS)
        framer.close()

    def _segments(self) -> list[dict[str, Any]]:
        """Return the final segments where they lie in the last round, by device and address."""
        layouts = {
            device: Layout(played, self.rounds - 1, self.seed)
            for device, played in self.played.items()
        }
        moved = [
            _moved(segment, layouts[segment["device"]], self.played[segment["device"]])
            if segment["device"] in layouts
            else segment
            for segment in self.snapshot["segments"]
        ]
        return sorted(moved, key=lambda each: (each["device"], each["address"]))

    def _write_traces(self, framer: Framer, memo: Memo) -> None:
        count = len(self.snapshot["device_traces"])
        framer.write(memo.new_list() + (b"" if count == 1 else MARK))
        for device in range(count):
            framer.write(memo.new_list())
            if device in self.played:
                self._write_trace(Lines(framer, memo), self.played[device], memo)
        framer.write(APPEND if count == 1 else APPENDS)

    def _write_trace(self, lines: Lines, played: Round, memo: Memo) -> None:
        rows = self.times.rows
        recorded = [use.event["time_us"] for use in played.events if "time_us" in use.event]
        begin, end = (rows[min(recorded)], rows[max(recorded)]) if recorded else (-1, -1)
        before = [Line(use, begin) for use in played.before]
        after = [Line(use, end) for use in played.after]
        events = [Line(use, rows.get(use.event.get("time_us", -1), -1)) for use in played.events]
        repeated = [line for line in events if line.event["action"] != MARKER]
        in_segments = memo.lists
        for number in range(self.rounds):
            layout = Layout(played, number, self.seed)
            last = number == self.rounds - 1
            # Blocks that are left share their list of frames with what the last round allocates.
            memo.lists = in_segments if last else {}
            addresses = layout.addresses(played.places)
            lines.begin(addresses, layout.sizes.tolist(), self.times.of(number).tolist())
            if number:
                lines.write(before)
            lines.write(repeated if number else events)
            if not last:
                lines.write(after)
        lines.close()

    def _write_annotations(self, framer: Framer, memo: Memo) -> None:
        framer.write(memo.new_list())
        lines = Lines(framer, memo)
        rows = self.times.rows
        own = [Line(Use(each, -1, -1), rows.get(each["time_us"], -1)) for each in self.annotations]
        lone, left = _unpaired(self.annotations)
        for number in range(self.rounds):
            lines.begin([], [], self.times.of(number).tolist())
            # What is cut off at one side of the recording is so in one round only.
            out = (lone if number else set()) | (left if number < self.rounds - 1 else set())
            lines.write(line for i, line in enumerate(own) if i not in out)
        lines.close()


def _unpaired(annotations: list[dict[str, Any]]) -> tuple[set[int], set[int]]:
    """Return which annotations are an END without a START, and which a START without an END."""
    lone: set[int] = set()
    opened: dict[tuple[int, str], list[int]] = {}
    for i, marker in enumerate(annotations):
        waiting = opened.setdefault((marker["device"], marker["name"]), [])
        if marker["stage"] == "START":
            waiting.append(i)
        elif waiting:
            waiting.pop()
        else:
            lone.add(i)
    return lone, {i for waiting in opened.values() for i in waiting}


def _write_list(framer: Framer, memo: Memo, items: list[dict[str, Any]]) -> None:
    """Write a list whose items come one by one."""
    framer.write(memo.new_list())
    for i, item in enumerate(items):
        if i % BATCH == 0:
            framer.write(APPENDS + MARK if i else MARK)
        framer.write(memo.value(item))
    if items:
        framer.write(APPENDS)


def _moved(segment: dict[str, Any], layout: Layout, played: Round) -> dict[str, Any]:
    """Return a final segment where a layout has it, with the requests that it drew."""
    blocks = []
    address = segment["address"]
    requested_in_all = 0
    for block in segment["blocks"]:
        moved = dict(block)
        if "address" in block:
            moved["address"] = layout.address(address)
        row = played.final.get(address, -1)
        if row >= 0:
            requested = int(layout.sizes[row])
            if "requested_size" in block:
                moved["requested_size"] = requested
            if "history" in block:
                start = layout.address(address)
                moved["history"] = [
                    {**each, "addr": start, "real_size": requested} for each in block["history"]
                ]
        if block["state"] != "inactive":
            requested_in_all += moved.get("requested_size", 0)
        blocks.append(moved)
        address += block["size"]
    changed = {"address": layout.address(segment["address"]), "blocks": blocks}
    if "requested_size" in segment:
        changed["requested_size"] = requested_in_all
    return {**segment, **changed}
