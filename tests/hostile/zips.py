"""Zips made by hand to harm whoever opens or unpacks them."""

from __future__ import annotations

import io
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable

import orjson

Change = Callable[[bytes], bytes]
"""Makes a hostile bundle of a sound one."""

_END = b"PK\x05\x06"
_ENTRY = b"PK\x01\x02"


def members_of(bundle: bytes) -> dict[str, bytes]:
    """Return the content of every member."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(
    members: dict[str, bytes] | list[tuple[str | zipfile.ZipInfo, bytes]],
    method: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """Return a zip of members."""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # of names that come twice
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, data, method)
    return out.getvalue()


def with_member(name: str, mode: int = 0, data: bytes = b"x") -> Change:
    """Add a member of this name and kind."""

    def change(bundle: bytes) -> bytes:
        info = zipfile.ZipInfo("placeholder")
        info.filename = name  # not through __init__, which would mend it
        info.create_system = 3
        info.external_attr = mode << 16
        return zipped([*members_of(bundle).items(), (info, data)])

    return change


def without(name: str) -> Change:
    """Leave a member out."""
    return lambda bundle: zipped(
        {each: data for each, data in members_of(bundle).items() if each != name}
    )


def instead(name: str, make: Callable[[], bytes]) -> Change:
    """Put other content into a member."""
    return lambda bundle: zipped(members_of(bundle) | {name: make()})


def edited_manifest(edit: Callable[[dict[str, object]], object]) -> Change:
    """Change the manifest; ``edit`` changes it, or returns another."""

    def change(bundle: bytes) -> bytes:
        members = members_of(bundle)
        manifest = orjson.loads(members["manifest.json"])
        changed = edit(manifest)
        members["manifest.json"] = orjson.dumps(manifest if changed is None else changed)
        return zipped(members)

    return change


def patched(signature: bytes, offset: int, form: str, value: int, index: int = 0) -> Change:
    """Write a number into the ``index``-th record that begins with a signature."""

    def change(bundle: bytes) -> bytes:
        data = bytearray(bundle)
        place = -1
        for _ in range(index + 1):
            place = data.index(signature, place + 1)
        struct.pack_into(form, data, place + offset, value)
        return bytes(data)

    return change


def _method(method: int) -> Change:
    return lambda bundle: zipped(members_of(bundle), method)


def _repeated(bundle: bytes) -> bytes:
    members = list(members_of(bundle).items())
    return zipped([*members, ("manifest.json", dict(members)["manifest.json"])])


def _linked(bundle: bytes) -> bytes:
    members = members_of(bundle)
    link = zipfile.ZipInfo("elements.db")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    return zipped(
        [
            ("manifest.json", members["manifest.json"]),
            (link, b"/etc/passwd"),
            ("allocations.json", members["allocations.json"]),
        ]
    )


def _bomb(name: str, begin: bytes, byte: bytes, mebibytes: int) -> Change:
    """Put a beginning and one byte again and again into a member, without writing them out.

    A flush that forgets what was before lets the same packed MiB follow itself.
    """

    def change(bundle: bytes) -> bytes:
        piece = byte * 2**20
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
        packed += (packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)) * mebibytes
        packed += packer.flush()
        checksum = zlib.crc32(begin)
        for _ in range(mebibytes):
            checksum = zlib.crc32(piece, checksum)
        members = members_of(bundle) | {name: packed}
        made = zipped(members, zipfile.ZIP_STORED)
        for signature, method in ((b"PK\x03\x04", 8), (_ENTRY, 10)):
            told = (
                (0, "<H", zipfile.ZIP_DEFLATED),
                (6, "<I", checksum),
                (14, "<I", len(begin) + len(piece) * mebibytes),
            )
            for behind, form, value in told:
                place = list(members).index(name)
                made = patched(signature, method + behind, form, value, place)(made)
        return made

    return change


def _many(bundle: bytes) -> bytes:
    return zipped([*members_of(bundle).items(), *((f"m{i}", b"") for i in range(2000))])


def _directory_bomb(bundle: bytes) -> bytes:
    """Say that the directory is as large as the file, and repeat an entry to fill it."""
    end = bundle.index(_END)
    begin = bundle.index(_ENTRY)
    entries = bundle[begin:end] * 12_000
    body = bundle[:begin] + entries
    tail = struct.pack("<4s4H2IH", _END, 0, 0, 0xFFFF, 0xFFFF, len(entries), begin, 0)
    return body + tail


def _overlapping(bundle: bytes) -> bytes:
    """Let the directory name one member's bytes many times, under the same name and others."""
    begin, end = bundle.index(_ENTRY), bundle.index(_END)
    first = bundle[begin : bundle.index(_ENTRY, begin + 1)]
    entries = bundle[begin:end]
    for i in range(100):
        entries += first.replace(b"manifest.json", f"manifes{i:06}".encode())
    count = 100 + bundle.count(_ENTRY)
    return (
        bundle[:begin]
        + entries
        + struct.pack("<4s4H2IH", _END, 0, 0, count, count, len(entries), begin, 0)
    )


def _quoted_overlap(_: bytes) -> bytes:
    """Lay a header inside of another member's deflated bytes, quoted by a stored block."""
    kernel = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = kernel.compress(bytes(2**20)) + kernel.flush()

    def header(name: bytes, size: int, crc: int, length: int) -> bytes:
        return struct.pack(
            "<4s5H3I2H", b"PK\x03\x04", 20, 0, 8, 0, 33, crc, size, length, len(name), 0
        )

    inner = header(b"elements.db", len(packed), zlib.crc32(bytes(2**20)), 2**20) + b"elements.db"
    quote = b"\x00" + struct.pack("<HH", len(inner), len(inner) ^ 0xFFFF)
    content = inner + bytes(2**20)
    outer_size = len(quote) + len(inner) + len(packed)
    outer = header(b"manifest.json", outer_size, zlib.crc32(content), len(content))
    body = outer + b"manifest.json" + quote + inner + packed
    entries, places = b"", {b"manifest.json": 0, b"elements.db": len(outer) + 13 + len(quote)}
    for name, place in places.items():
        own = outer if name == b"manifest.json" else inner
        entries += _ENTRY + b"\x14\x03" + own[4:30]
        entries += struct.pack("<HHHII", 0, 0, 0, 0o644 << 16, place) + name
    return body + entries + struct.pack("<4s4H2IH", _END, 0, 0, 2, 2, len(entries), len(body), 0)


def _zip64(bundle: bytes, length: int, members: int) -> bytes:
    """End a zip by records of zip64 that tell of a directory of this length."""
    begin, end = bundle.index(_ENTRY), bundle.index(_END)
    record = struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, members, members, length, begin)
    locator = struct.pack("<IQI", 0, end, 1)
    tail = struct.pack("<4H2IH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return bundle[:end] + b"PK\x06\x06" + record + b"PK\x06\x07" + locator + _END + tail


def _nested(bundle: bytes) -> bytes:
    for _ in range(20):
        bundle = zipped({"manifest.json": b'{"format": 1}', "elements.db": bundle})
    return bundle


def _set(*keys: str | int, to: object) -> Change:
    """Set one value somewhere in the manifest."""

    def edit(manifest: dict[str, object]) -> None:
        place: object = manifest
        for key in keys[:-1]:
            place = place[key]  # type: ignore[index]
        place[keys[-1]] = to  # type: ignore[index]

    return edited_manifest(edit)


def _text(name: str, text: bytes) -> Change:
    return instead(name, lambda: text)


REFUSED: dict[str, Change] = {
    "absolute path": with_member("/etc/cron.d/evil"),
    "parent folder": with_member("../../.bashrc"),
    "parent folder inside": with_member("a/../../evil"),
    "backslashes": with_member("..\\..\\evil.bat"),
    "drive": with_member("C:evil.bat"),
    "escape in a name": with_member("a\x1b[2Jb"),
    "newline in a name": with_member("a\nb"),
    "NUL in a name": with_member("elements.db\0.txt"),
    "link as a member": with_member("link", stat.S_IFLNK | 0o777, b"/etc/passwd"),
    "device as a member": with_member("device", stat.S_IFCHR | 0o666),
    "pipe as a member": with_member("pipe", stat.S_IFIFO | 0o666),
    "database is a link": _linked,
    "manifest twice": _repeated,
    "database twice but for case": with_member("ELEMENTS.DB"),
    "no manifest": without("manifest.json"),
    "no database": without("elements.db"),
    "no strips": without("allocations.json"),
    "no member": lambda _: zipped({}),
    "2000 members": _many,
    "directory without end": _directory_bomb,
    "members on one another": _overlapping,
    "quoted overlap": _quoted_overlap,
    "bzip2": _method(zipfile.ZIP_BZIP2),
    "lzma": _method(zipfile.ZIP_LZMA),
    "unknown method": lambda b: patched(b"PK\x03\x04", 8, "<H", 99)(
        patched(_ENTRY, 10, "<H", 99)(b)
    ),
    "encrypted": lambda b: patched(b"PK\x03\x04", 6, "<H", 1)(patched(_ENTRY, 8, "<H", 1)(b)),
    "database encrypted": patched(_ENTRY, 8, "<H", 1, 1),
    "patch data": patched(_ENTRY, 8, "<H", 0x20, 1),
    "wrong checksum": patched(_ENTRY, 16, "<I", 0x12345678, 1),
    "stated too short": patched(_ENTRY, 24, "<I", 100, 1),
    "stated too long": patched(_ENTRY, 24, "<I", 2**30, 1),
    "stated 4 GiB": patched(_ENTRY, 24, "<I", 2**32 - 2, 1),
    "stated in zip64 without a field": patched(_ENTRY, 24, "<I", 2**32 - 1, 1),
    "packed size too long": patched(_ENTRY, 20, "<I", 2**31, 1),
    "packed size too short": patched(_ENTRY, 20, "<I", 5, 1),
    "header elsewhere": patched(_ENTRY, 42, "<I", 17, 1),
    "header behind the end": patched(_ENTRY, 42, "<I", 2**31, 1),
    "other name in the header": patched(b"PK\x03\x04", 30, "<H", 0x4141, 1),
    "directory elsewhere": patched(_END, 16, "<I", 2**31),
    "directory of 4 GiB": patched(_END, 12, "<I", 2**32 - 2),
    "zip64 directory of 2**63": lambda b: _zip64(b, 2**63, 3),
    "zip64 directory of 2**40": lambda b: _zip64(b, 2**40, 3),
    "zip64 without its locator": lambda b: patched(_END, 16, "<I", 2**32 - 1)(b),
    "something before": lambda b: b"PK\x03\x04" + bytes(1000) + b,
    "two zips": lambda b: b + b,
    "far behind the end": lambda b: b + bytes(2**17),
    "bomb of zeros": _bomb("elements.db", b"SQLite format 3\0", b"\0", 256),
    "bomb in the manifest": _bomb("manifest.json", b"", b" ", 128),
    "deep manifest": _text("manifest.json", b"[" * 100_000 + b"]" * 100_000),
    "deep manifest of objects": _text("manifest.json", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "zip in a zip": _nested,
    "zip as the database": lambda b: instead("elements.db", lambda: b)(b),
    "empty manifest": _text("manifest.json", b""),
    "manifest is a list": _text("manifest.json", b"[]"),
    "manifest is a number": _text("manifest.json", b"1e999"),
    "manifest is no UTF-8": _text("manifest.json", b'{"format": "\xff"}'),
    "manifest has a huge number": _text("manifest.json", b'{"format": ' + b"9" * 10**6 + b"}"),
    "manifest has NaN": _text("manifest.json", b'{"format": NaN}'),
    "format is a text": _set("format", to="1"),
    "format is true": _set("format", to=True),
    "format is 0": _set("format", to=0),
    "format is newer": _set("format", to=2),
    "no source": _set("source", to=None),
    "source name is a list": _set("source", "name", to=["a"] * 1000),
    "source name is long": _set("source", "name", to="a" * 10**6),
    "source size is negative": _set("source", "size", to=-1),
    "source size is a float": _set("source", "size", to=1e308),
    "other default device": _set("default_device", to=1),
    "other device": _set("devices", 0, "device", to="cuda:7"),
    "other count of events": _set("devices", 0, "events", to=10**12),
    "other count of allocations": _set("devices", 0, "allocations", to=1),
    "count is a float": _set("devices", 0, "segments", to=1.0),
    "no device": _set("devices", to=[]),
    "other strips": _set("devices", 0, "strips", to="../allocations.json"),
    "other count of stacks": _set("counts", "stacks", to=0),
    "counts are a list": _set("counts", to=[1, 2]),
}
"""What has to be refused, by what is wrong with it."""

ACCEPTED: dict[str, Change] = {
    "packed again": lambda b: zipped(members_of(b)),
    "stored": lambda b: zipped(members_of(b), zipfile.ZIP_STORED),
    "other order": lambda b: zipped(dict(reversed(members_of(b).items()))),
    "a file of somebody's": with_member("notes/readme.txt"),
    "few bytes behind the end": lambda b: b + b"\n",
    "zip64 where none is needed": lambda b: _zip64(
        b, b.index(_END) - b.index(_ENTRY), b.count(_ENTRY)
    ),
}
"""What is odd and harmless, and has to give the same history."""
