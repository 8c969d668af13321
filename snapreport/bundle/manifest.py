"""Makes, reads and checks ``manifest.json``, in which a bundle describes itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import orjson

from snapreport.bundle.cut_strips import CUT_RULE
from snapreport.bundle.strips import EXACT_UP_TO, RULE, count_columns
from snapreport.ground.errors import BundleError
from snapreport.ground.version import __version__
from snapreport.model.cut import Drawn
from snapreport.model.history import History
from snapreport.model.snapshot import Source

FORMAT = 1

MANIFEST = "manifest.json"

_LONGEST_NAME = 4096


def make_manifest(
    history: History, warnings: list[dict[str, str]], drawn: Sequence[Drawn] | None = None
) -> dict[str, Any]:
    """Return the manifest of a history as plain values.

    Args:
        history: what the bundle holds.
        warnings: ``code`` and ``text`` of each.
        drawn: what the strips show of each device; None for all.
    """
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "snapreport": __version__,
        "source": {
            "name": history.source.name,
            "size": history.source.size,
            "sha256": history.source.sha256,
        },
        **_facts(history),
        "strips": RULE,
        "warnings": warnings,
    }
    if drawn is not None:
        manifest["strips"] = f"{RULE} {CUT_RULE}"
        for device, part in zip(manifest["devices"], drawn, strict=True):
            device["cut"] = part.as_plain()
    return manifest


def strips_name(history: History, index: int) -> str:
    """Return the member that holds a device's strips; the default device's has no number."""
    return "allocations.json" if index == history.default_device else f"allocations.{index}.json"


def _facts(history: History) -> dict[str, Any]:
    """Return the facts that ``elements.db`` also holds, or that follow from it."""
    return {
        "default_device": history.default_device,
        "devices": [
            {
                "device": str(device.device),
                "events": device.events,
                "allocations": len(device.allocations),
                "segments": len(device.segments),
                "blocks": len(device.segments.block_state),
                "annotations": len(device.stages),
                "strips": strips_name(history, index),
                "strips_columns": count_columns(device),
                "strips_exact_at_every_event": device.events <= EXACT_UP_TO,
            }
            for index, device in enumerate(history.devices)
        ],
        "counts": {
            "frames": len(history.stacks.frames),
            "stacks": len(history.stacks),
        },
    }


def parse_manifest(data: bytes) -> dict[str, Any]:
    """Read a manifest.

    Raises:
        BundleError: it is of a newer format.
        KeyError, TypeError, ValueError: it is not a manifest.
    """
    manifest = orjson.loads(data)
    if not isinstance(manifest, dict):
        raise TypeError(f"{MANIFEST} is not an object")
    version = manifest["format"]
    if type(version) is not int:
        raise TypeError("the format is not a number")
    if version > FORMAT:
        raise BundleError(
            f"has bundle format {str(version)[:20]}, but snapreport {__version__} reads only"
            f" formats up to {FORMAT}; upgrade snapreport, or convert the snapshot with this one."
        )
    if version < FORMAT:
        raise ValueError(f"there is no format {version}")
    result: dict[str, Any] = manifest
    return result


def source_of(manifest: dict[str, Any]) -> Source:
    """Return the file that a bundle was made from.

    Raises:
        KeyError, TypeError, ValueError: the manifest does not say.
    """
    source = manifest["source"]
    name, size, digest = source["name"], source["size"], source["sha256"]
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        raise TypeError("the source's name is not valid")
    if type(size) is not int or not 0 <= size < 2**63:
        raise TypeError("the source's size is not valid")
    if not isinstance(digest, str) or len(digest) > 128:
        raise TypeError("the source's sha256 is not valid")
    return Source(name, size, digest)


def check_manifest(manifest: dict[str, Any], history: History, members: Collection[str]) -> None:
    """Compare a manifest with what the database says, and with the members of the zip.

    Raises:
        BundleError: they disagree.
    """
    facts = _facts(history)
    for device in facts["devices"]:
        del device["strips_columns"]  # depends on the version that wrote the strips
    for key, fact in facts.items():
        if not _agrees(manifest.get(key), fact):
            raise BundleError(
                f"has a {MANIFEST} that disagrees with its elements.db ({key}); one of them was"
                " changed: convert the snapshot again."
            )
    for index in range(max(len(history.devices), 1)):
        name = strips_name(history, index) if history.devices else "allocations.json"
        if name not in members:
            raise KeyError(name)


def _agrees(stated: Any, fact: Any) -> bool:
    """Say whether each fact is as stated; older versions may not have stated all of them."""
    if isinstance(fact, dict):
        return isinstance(stated, dict) and all(
            key not in stated or _agrees(stated[key], value) for key, value in fact.items()
        )
    if isinstance(fact, list):
        return (
            isinstance(stated, list)
            and len(stated) == len(fact)
            and all(_agrees(one, other) for one, other in zip(stated, fact, strict=True))
        )
    return type(stated) is type(fact) and bool(stated == fact)
