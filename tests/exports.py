"""What other tools read in our exports, by their own descriptions of the formats."""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from snapreport.api.device import Moment
from snapreport.api.loading import Snapshot
from snapreport.figures.callsites import find_site_frames
from snapreport.figures.grouping import label_forward
from snapreport.model.history import History
from snapreport.reporters.exports.stack_weights import DeviceExport, Export
from snapreport.roles.frames import site_frames

CURVES = ("allocated", "requested", "active")


def export_of(history: History, curve: str = "allocated", event: int | None = None) -> Export:
    """Return what an exporter is given for every device of a file, at an event or the peak."""
    snapshot = Snapshot(history)
    devices = []
    for place in history.devices:
        one = snapshot.device(str(place.device))
        last = one.events - 1
        moment: Moment = one.at(None if event is None else min(event, last), curve=curve)
        devices.append(DeviceExport(one.figures, moment.event, moment.live()))
    return Export(
        snapshot.history,
        find_site_frames(snapshot.history.stacks),
        site_frames(snapshot.history.stacks),
        label_forward(snapshot.history.stacks),
        curve,
        tuple(devices),
        event is not None,
    )


def written(write: Callable[[Export, BinaryIO], None], export: Export) -> bytes:
    """Return what an exporter writes."""
    out = io.BytesIO()
    write(export, out)
    return out.getvalue()


def only(export: Export, place: int) -> Export:
    """Return the export of one of the devices."""
    return replace(export, devices=(export.devices[place],))


_INT, _TEXT, _MESSAGE, _BOOL = 3, 9, 11, 8
_PROFILE: dict[str, list[tuple[str, int, int | str, bool]]] = {
    "Profile": [
        ("sample_type", 1, "ValueType", True),
        ("sample", 2, "Sample", True),
        ("mapping", 3, "Mapping", True),
        ("location", 4, "Location", True),
        ("function", 5, "Function", True),
        ("string_table", 6, _TEXT, True),
        ("drop_frames", 7, _INT, False),
        ("time_nanos", 9, _INT, False),
        ("duration_nanos", 10, _INT, False),
        ("period_type", 11, "ValueType", False),
        ("period", 12, _INT, False),
        ("comment", 13, _INT, True),
        ("default_sample_type", 14, _INT, False),
    ],
    "ValueType": [("type", 1, _INT, False), ("unit", 2, _INT, False)],
    "Sample": [("location_id", 1, _INT, True), ("value", 2, _INT, True)],
    "Mapping": [
        ("id", 1, _INT, False),
        ("filename", 5, _INT, False),
        ("has_functions", 7, _BOOL, False),
        ("has_filenames", 8, _BOOL, False),
        ("has_line_numbers", 9, _BOOL, False),
        ("has_inline_frames", 10, _BOOL, False),
    ],
    "Location": [("id", 1, _INT, False), ("mapping_id", 2, _INT, False), ("line", 4, "Line", True)],
    "Line": [("function_id", 1, _INT, False), ("line", 2, _INT, False)],
    "Function": [
        ("id", 1, _INT, False),
        ("name", 2, _INT, False),
        ("system_name", 3, _INT, False),
        ("filename", 4, _INT, False),
    ],
}
"""pprof's messages as its documentation tells them: name, number, type, repeated."""


@lru_cache
def _profile_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for name, fields in _PROFILE.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            added = message.field.add(name=field, number=number, label=3 if repeated else 1)
            if isinstance(kind, str):
                added.type, added.type_name = _MESSAGE, f".p.{kind}"  # type: ignore[assignment]
            else:
                added.type = kind  # type: ignore[assignment]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


def read_pprof(data: bytes) -> Any:
    """Parse a gzipped profile; nothing in it may be unknown to the description."""
    from google.protobuf import unknown_fields

    profile = _profile_class()()
    profile.ParseFromString(gzip.decompress(data))
    parts = [profile, *profile.sample, *profile.location, *profile.function, *profile.mapping]
    assert not any(len(unknown_fields.UnknownFieldSet(part)) for part in parts)
    return profile


@dataclass
class Timeline:
    """What Perfetto's packets say of one device's group of tracks."""

    counters: dict[str, dict[int, int]]
    """Values by time, in nanoseconds, of each counter by its name."""
    slices: list[tuple[str, int, int | None, dict[str, Any]]]
    """Name of the track, begin, end and arguments of each slice."""


def read_perfetto(data: bytes) -> dict[str, Timeline]:
    """Parse a trace by Perfetto's own description of it; by the name of each outermost track."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

    trace = pb.Trace()
    trace.ParseFromString(data)
    tracks: dict[int, Any] = {}
    interned: dict[str, dict[int, str]] = defaultdict(dict)
    found: dict[str, Timeline] = {}
    opened: dict[int, tuple[str, int, dict[str, Any]]] = {}

    def outermost(uuid: int) -> Timeline:
        while tracks[uuid].parent_uuid:
            uuid = tracks[uuid].parent_uuid
        return found.setdefault(tracks[uuid].name, Timeline(defaultdict(dict), []))

    events = []
    keys = interned["debug_annotation_names"]
    for packet in trace.packet:
        for kind in ("event_names", "debug_annotation_names"):
            interned[kind].update({e.iid: e.name for e in getattr(packet.interned_data, kind)})
        for text in packet.interned_data.debug_annotation_string_values:
            interned["texts"][text.iid] = text.str.decode()
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            outermost(packet.track_descriptor.uuid)
        if packet.HasField("track_event"):
            events.append((packet.timestamp, packet.track_event))
    # As the trace processor does: by time, at one time in the order of the file.
    for time, event in sorted(events, key=lambda each: each[0]):
        uuid, track = event.track_uuid, tracks[event.track_uuid]
        if event.type == pb.TrackEvent.TYPE_COUNTER:
            outermost(uuid).counters[track.name][time] = event.counter_value
        elif event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            assert uuid not in opened, "two slices at once on one lane"
            values = {
                keys[a.name_iid]: interned["texts"].get(
                    a.string_value_iid, a.int_value or a.pointer_value
                )
                for a in event.debug_annotations
            }
            opened[uuid] = (interned["event_names"][event.name_iid], time, values)
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            name, begin, values = opened.pop(uuid)
            outermost(uuid).slices.append((track.name, begin, time, {**values, "name": name}))
    for uuid, (name, begin, values) in opened.items():
        outermost(uuid).slices.append((tracks[uuid].name, begin, None, {**values, "name": name}))
    return found
