"""Texts that attack whatever shows them, and a snapshot that has each in every place for a text."""

from __future__ import annotations

import pickle
import unicodedata
from pathlib import Path
from typing import Any

ORIGIN = "http://attack.example"
"""Where an attack that works would ask for something; a test may listen elsewhere."""

MIB = 2**20
START_US = 1_700_000_000_000_000

# {js} is a script that leaves a mark, {url} an address that nothing may ask for.
_MARKUP = {
    "script": "</script><script>{js}</script>",
    "script-from-elsewhere": "</script><script src={url}></script>",
    "picture-that-fails": '<img src=x onerror="{js}">',
    "picture-from-elsewhere": '<img src="{url}">',
    "svg-that-loads": "</svg><svg onload={js}>",
    "svg-animation": '<svg><animate onbegin="{js}" attributeName=x dur=1s>',
    "frame": "<iframe srcdoc='<script>top.{js}</script>'></iframe>",
    "frame-from-elsewhere": "<iframe src={url}></iframe>",
    "attribute": '" autofocus onfocus="{js}" onmouseover="{js}" x="',
    "attribute-in-single-quotes": "' autofocus onfocus='{js}' onmouseover='{js}' x='",
    "attribute-without-quotes": " onmouseover={js} onfocus={js} tabindex=1 ",
    "style": "</style><style>*{{background:url({url})}}</style>",
    "style-value": ";background:url({url});x:expression({js})",
    "end-of-title": "</title><svg onload={js}>",
    "end-of-text": '</textarea></noscript></template><img src=x onerror="{js}">',
    "end-of-comment": '--><img src=x onerror="{js}"><!--',
    "cdata": "<![CDATA[</text>]]><script>{js}</script>",
    "refresh": '<meta http-equiv=refresh content="0;url={url}">',
    "base": "<base href={url}/>",
    "stylesheet": "<link rel=stylesheet href={url}><link rel=prefetch href={url}>",
    "object": "<object data={url}></object><embed src={url}>",
    "video": '<video autoplay src={url} onerror="{js}"></video>',
    "form": '<form action={url}><button autofocus onfocus="{js}">Go</button></form>',
    "html-link": '<a href="javascript:{js}" id=payload name=snapreport>x</a>',
    "encoded-entities": "&lt;img src=x onerror={js}&gt;&#60;script&#62;{js}",
    "double-escapes": "\\u003cimg src=x onerror={js}\\u003e\\x3cscript\\x3e",
    "end-of-json": '"}}]}}</script><script>{js}//',
    "line-separators": "x\u2028{js}//\u2029{js}",
    "template": "{{{{ 7*7 }}}}{{% raw %}}${{{js}}}<%= 7*7 %>#{{7*7}}",
    "clobbered-names": "__proto__",
    "details": '<details open ontoggle="{js}"><summary>x</summary>',
}
_MARKDOWN = {
    "markdown-link": "[x](javascript:{js}) [y]({url})",
    "markdown-data-link": "[x](data:text/html,<script>{js}</script>)",
    "markdown-picture": "![img]({url}) ![x][ref]\n\n[ref]: {url}",
    "markdown-automatic-link": "<{url}> {url} www.attack.example ftp://x.example me@x.example",
    "markdown-mention": "@everyone @org/team #123 GH-45 octocat/hello#6",
    "markdown-fence": "```\n</code></pre>\n~~~",
    "markdown-backticks": "` `` ``` |x` | y",
    "markdown-table": "a | b\n|---|---|\n| c | d |\\| \\\\| e",
    "markdown-heading": "\n# Owned\n\nx\n===\n---\n- item\n1. item\n> quote",
    "markdown-comment": "<!-- what follows is hidden",
    "markdown-emphasis": "**x** _y_ ~~z~~ $a$ $$b$$ :fire: \\",
    "markdown-footnote": "[^1] [^1]: x [x]",
}
_TERMINAL = {
    "escape-colours": "\x1b[31;5;7mred\x1b[8m",
    "escape-clears": "\x1b[2J\x1b[H\x1b[3J\x1bc",
    "escape-moves": "\x1b[10A\x1b[1000D\x1b[s\x1b[u\x1b[?1049h",
    "escape-link": "\x1b]8;;{url}\x1b\\click\x1b]8;;\x1b\\",
    "escape-clipboard": "\x1b]52;c;cm0gLXJmIH4K\x07",
    "escape-window-title": "\x1b]0;owned\x07\x1b]2;owned\x1b\\",
    "escape-asks-back": "\x1b[6n\x1b[c\x1b[21t\x05",
    "escape-strings": "\x1bP+q544e\x1b\\\x1b_x\x1b\\\x1b^y\x1b\\",
    "c1-controls": "\x9b2J\x9d0;owned\x9c\x90x\x9c\x85next",
    "forged-line": "fine\r\nError: forged\nWarning: forged\rover",
    "backspaces": "safe\b\b\b\bevil\x7f\x7f\x00\x0b\x0c\x0e",
    "bidi-override": "\u202egnp.exe\u202c \u202dx\u202c",
    "bidi-isolate": "\u2066\u2067\u2068left open \u202a\u202b",
    "bidi-marks": "\u200e\u200f\u061c\u05d0\u05d1\u0660",
    "zero-width": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u180e",
    "tag-letters": "\U000e0041\U000e0042\U000e007f",
    "lone-surrogates": "\ud83d half \udfff",
    "combining-letters": "Z" + "\u0301\u0489" * 200,
    "no-letters": "\u3164\u115f\u2800\u00a0",
    "rich-markup": "[bold red]x[/] [/not-open] [link={url}]y[/link] [@click=app.bell]z",
    "format-directives": "%s%n%x {0.__class__} {!r} %(x)s",
    "very-long": "A" * 50_000,
    "very-long-path": "/" + "dir/" * 5_000 + "x",
}
_TABLES = {
    "sql": "'; DROP TABLE allocations; --",
    "sql-double": "\"); ATTACH DATABASE 'x' AS y; --",
    "formula": '=HYPERLINK("{url}","x")',
    "formula-command": "=cmd|' /C calc'!A0",
    "formula-plus": "+1+cmd|' /C calc'!A0",
    "formula-minus": "-2+3+cmd|' /C calc'!A0",
    "formula-at": "@SUM(1+1)",
    "formula-tab": "\t=1+1",
    "formula-return": "\r=1+1",
    "formula-line": "\n=1+1",
    "formula-blanks": "  =1+1",
    "formula-wide": "\uff1d1\uff0b1",
    "cells": 'a,"b";c\n=1+1\n"',
}


def attacks(origin: str = ORIGIN) -> dict[str, str]:
    """Return the attacks by name; those that run something set ``window.fired`` to their name."""
    texts = {}
    for name, text in (_MARKUP | _MARKDOWN | _TERMINAL | _TABLES).items():
        if "{js}" in text or "{url}" in text or name == "template":
            text = text.format(js=f"window.fired='{name}'", url=f"{origin}/{name}")
        texts[name] = text
    return texts


ATTACKS = attacks()

NAMES = (
    "=<img src=x onerror=window.fired='file'>|`@me`.pickle",
    "\x1b]0;owned\x07\u202e\x9b2J[x](javascript:1)\n# x.pickle",
    "--=1+1 \"'&<script>.pickle",
)
"""Names that a file can have."""

FORBIDDEN_ELEMENTS = (
    "img, iframe, object, embed, form[action], base, link, video, audio, source, picture, animate, "
    'script[src], meta[http-equiv="refresh"], a[href^="javascript" i], a[href^="data" i], '
    "[onerror], [onload], [onfocus], [onmouseover], [ontoggle], [onbegin], [srcdoc]"
)
"""A CSS selector of what no page of ours has, and what text that became markup would make."""


def is_calm(text: str) -> bool:
    """Say whether text has no character that drives a terminal or turns the reading order."""
    return not [
        char
        for char in set(text)
        if not char.isprintable()
        and char not in "\n\t"
        and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


def snapshot(origin: str = ORIGIN) -> dict[str, Any]:
    """Make a snapshot with each attack as function, file, stage, metadata, setting and more."""
    texts = list(attacks(origin).values())
    base = 0x7F0000000000
    total = len(texts) * MIB
    trace = [_event("segment_alloc", base, total, 0, texts[0])]
    blocks, annotations = [], []
    for k, text in enumerate(texts):
        made = _event("alloc", base + k * MIB, MIB, 10 * k + 1, text)
        made |= {"user_metadata": text, "compile_context": text, f"unknown {text}": text}
        trace.append(made)
        annotations.append(_annotation(text, "START", 10 * k))
        annotations.append(_annotation(text, "END", 10 * k + 9))
        blocks.append(
            {
                "address": base + k * MIB,
                "size": MIB,
                "requested_size": MIB,
                "state": "active_allocated",
                "frames": made["frames"],
                "user_metadata": text,
            }
        )
    end = 10 * len(texts) + 20
    trace += [_event(f"odd {text}", base, 1, end + k, text) for k, text in enumerate(texts)]
    trace.append(_event("oom", base, 40 * MIB, end + 100, texts[0]) | {"device_free": MIB})
    annotations.append(_annotation("whatever", texts[0], end))
    segment = {
        "device": 0,
        "address": base,
        "total_size": total,
        "allocated_size": total,
        "active_size": total,
        "requested_size": total,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": trace[0]["frames"],
        "blocks": blocks,
    }
    return {
        "segments": [segment],
        "device_traces": [trace],
        "external_annotations": annotations,
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": texts[0]}
        | {text: text for text in texts},
        "snapreport": _noted(texts),
    } | {f"top {text}": text for text in texts}


def _event(action: str, address: int, size: int, after_us: int, text: str) -> dict[str, Any]:
    frames = [
        {"name": text, "filename": f"{text}.py", "line": 7, "source": text},
        {"name": "main", "filename": "train.py", "line": 1, "source": text},
    ]
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": START_US + after_us,
        "frames": frames,
    }


def _annotation(name: str, stage: str, after_us: int) -> dict[str, Any]:
    return {"name": name, "stage": stage, "device": 0, "time_us": START_US + after_us}


def _noted(texts: list[str]) -> dict[str, Any]:
    """What a recording notes of itself, from a recorder that lies."""
    all_of_them = "\n\n".join(texts)
    return {
        "format": 1,
        "made_by": texts[0],
        "recorder": "cuda",
        "command": texts,
        "title": " ".join(text for text in texts if len(text) < 1000),
        "notes": "\n\n".join(text for text in texts if len(text) < 1000),
        "torch": texts[2],
        "cuda": all_of_them,
        "driver": all_of_them[::-1],
        "python": texts[3],
        "devices": [{"device": "cuda:0", "name": all_of_them, "capacity": 2**33}],
        "storages": [
            {
                "device": "cuda:0",
                "address": 0x7F0000000000 + k * MIB,
                "size": MIB,
                "kind": "parameter",
                "name": text,
            }
            for k, text in enumerate(texts)
        ],
        "marks": [{"name": text, "time_us": START_US + k} for k, text in enumerate(texts)],
        "failure": {"type": texts[0], "message": all_of_them, "step": 3},
        "started_us": START_US,
        "ended_us": START_US + 5000,
        "rank": 0,
        "world_size": 2,
    }


def write_snapshot(path: Path, origin: str = ORIGIN) -> Path:
    """Write the snapshot as a pickle, with half characters where Python has them."""
    path.write_bytes(pickle.dumps(snapshot(origin)))
    return path
