"""JSON Schemas of types: numbers, texts, tuples, mappings and dataclasses."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from snapreport.model.replays import FactualReplay

Schema = dict[str, Any]

_PLAIN = {int: "integer", str: "string", bool: "boolean", float: "number", type(None): "null"}


def of(kind: Any) -> Schema:
    """Return the schema of a type: a number, a text, a tuple, a mapping, a dataclass."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is Any:
        return {}
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, types.UnionType):
        return either(*map(of, inside))
    if origin is tuple:
        return many(of(inside[0]))
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": of(inside[1])}
    if is_dataclass(kind):
        return record(kind)
    raise TypeError(f"{kind} has no form in JSON")


def either(*schemas: Schema) -> Schema:
    """Return the union of several schemas; plain types become one schema."""
    if all(list(each) == ["type"] for each in schemas):
        return {"type": [each["type"] for each in schemas]}
    return {"anyOf": list(schemas)}


def maybe(schema: Schema) -> Schema:
    """Return a schema that also accepts null."""
    return either(schema, {"type": "null"})


def many(schema: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": schema}


def numbers(*names: str) -> dict[str, Schema]:
    """Return the schemas of fields that are integers."""
    return dict.fromkeys(names, of(int))


def thing(**properties: Schema) -> Schema:
    """Return the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def record(kind: Any, *left_out: str, **more: Schema) -> Schema:
    """Return the schema of a dataclass, with some fields left out, added or replaced."""
    hints = get_type_hints(kind, localns={"FactualReplay": FactualReplay})
    names = [each.name for each in fields(kind) if each.name not in left_out]
    return thing(**({name: of(hints[name]) for name in names if name not in more} | more))
