"""Writes what Sphinx makes the site of: ``python -m docs.make_site FOLDER``.

The documents are those that GitHub shows, with links that also lead from one to another in the
site. Where one has ``<!-- page: NAME | CAPTION -->`` or ``<!-- picture: NAME -->``, the site has a
live page of ``docs/make_site_pages.py``, or a picture that leads to it. The reference of the
command line, the glossary and the tables of the JSON Schemas come from the package itself.
"""

from __future__ import annotations

import html
import inspect
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import orjson

import snapreport
from snapreport.commands import cli
from snapreport.ground.glossary import FIGURES, GLOSSARY, ROLE_MEANINGS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
OUTSIDE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "sample_snapshots/README.md": "samples.md",
}
"""Documents that lie elsewhere, and what the site calls them."""
UNLISTED = {True: "How-to", False: "Development"}
"""The parts that get what the index does not list: of ``docs/``, and of elsewhere."""
DEEPEST = 4
"""How many keys deep the tables of the JSON Schemas go; the files have the rest."""

LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
MARK = re.compile(r"^<!-- (page|picture): ([\w-]+)(?: \| (.*?))? -->$", re.MULTILINE)
_PART = re.compile(r"^## (.+)\n\n((?:- .*\n)+)", re.MULTILINE)
_ITEM = re.compile(r"^- \[([^]]*)\]\(([^)#]+)\)", re.MULTILINE)


def documents() -> dict[str, Path]:
    """Return each document of the site: its name there, and the file."""
    found = {name: ROOT / path for path, name in OUTSIDE.items() if (ROOT / path).exists()}
    return found | {path.name: path for path in sorted(DOCS.glob("*.md"))}


def parts() -> dict[str, list[str]]:
    """Return the site's parts: the title of each, and the names of its pages in their order."""
    of_file = {path: name for name, path in documents().items()}
    listed = {
        part[1]: [of_file[(DOCS / target).resolve()] for _, target in _ITEM.findall(part[2])]
        for part in _PART.finditer(INDEX.read_text(encoding="utf-8"))
    }
    for title, made in MADE.items():
        listed[title] = [*listed[title], *made]
    placed = {name for names in listed.values() for name in names}
    for path, name in of_file.items():
        if name not in placed and path != INDEX:
            listed[UNLISTED[path.parent == DOCS]].append(name)
    return listed


def title_of(text: str) -> str:
    """Return the first heading of a document."""
    (title,) = re.findall(r"\A(?:<!--.*?-->\s*)?# (.+)$", text, re.MULTILINE)[:1]
    return str(title)


def site_text(path: Path, files: dict[str, Path]) -> str:
    """Return a document as the site has it.

    Args:
        path: the document.
        files: gets the other files that it links to: the name of each in the site, and the file.
    """
    of_file = {file: name for name, file in documents().items()}

    def lead(link: re.Match[str]) -> str:
        target = (path.parent / link[2]).resolve()
        name = of_file.get(target)
        if name is None and target.is_file():
            name = target.relative_to(ROOT).as_posix().removeprefix("docs/")
            files[name] = target
        return f"{link[1]}{name or link[2]}{link[3] or ''}"

    text = MARK.sub(_shown, LINK.sub(lead, path.read_text(encoding="utf-8")))
    # To draw the first takes a script of megabytes, and what colours the others takes output for
    # a prompt, or is not there.
    return re.sub(r"(?m)^```(mermaid|console|ipython)$", "```text", text)


def _shown(mark: re.Match[str]) -> str:
    page = f"pages/{mark[2]}.html"
    if mark[1] == "picture":
        picture = f'<img src="pages/{mark[2]}.svg" alt="The timeline, which leads to the page">'
        return f'<a class="picture" href="{page}">{picture}</a>'
    caption = html.escape(mark[3])
    return (
        f'<figure class="page"><iframe src="{page}" title="{caption}" loading="lazy"></iframe>'
        f'<figcaption>{caption}. <a href="{page}">The page by itself</a></figcaption></figure>'
    )


def _index(texts: Mapping[str, str]) -> str:
    """Return the first page: the index, with all pages of each part, and the tables of contents."""
    text = texts["index.md"]
    for title, names in parts().items():
        at = next(part for part in _PART.finditer(text) if part[1] == title)
        called = {name: words for words, name in _ITEM.findall(at[2])}
        more = {name: title_of(texts[name]) for name in names if name not in called}
        items = "".join(f"- [{words}]({name})\n" for name, words in more.items())
        entries = [f"{(called | more)[name]} <{name}>" for name in names]
        tree = "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```"])
        text = f"{text[: at.end()]}{items}\n{tree}\n{text[at.end() :]}"
    return text


# What the package says of itself.


def _command_line() -> Iterator[str]:
    yield "# The command line"
    yield (
        "Every command with all its options, as `snapreport COMMAND --help` prints them. "
        "[The commands](commands.md) has an example of each, with its output."
    )
    for name in ["", *cli.commands]:
        command = cli.commands[name] if name else cli
        called = f"snapreport {name}".strip()
        context = click.Context(command, info_name=called)
        yield f"## {name or called}"
        yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
        yield from _help(inspect.cleandoc(command.help or ""))
        records = [option.get_help_record(context) for option in command.params]
        rows = [record for record in records if record and record[0].startswith("-")]
        for flags, meaning in rows:
            yield f"`{flags}`\n: {_plain(meaning)}"


def _help(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\n+", text):
        if paragraph.startswith("\b\n"):
            first, *rest = paragraph[2:].splitlines()
            yield first
            yield "```text\n" + inspect.cleandoc("\n".join(rest)) + "\n```"
        else:
            yield _plain(paragraph)


def _plain(text: str) -> str:
    """Escape what Markdown would read as its own."""
    return re.sub(r"([\\`*_<>\[\]{}|$])", r"\\\1", text.replace("\n", " "))


def _numbers() -> Iterator[str]:
    yield "# What the numbers mean"
    yield "Every figure is for one device. Neither the curves nor devices are ever added up."
    yield from _table("Figures", {term: GLOSSARY[term] for term in FIGURES})
    yield from _table("Roles", ROLE_MEANINGS)
    others = sorted(GLOSSARY.keys() - set(FIGURES) - ROLE_MEANINGS.keys(), key=str.lower)
    yield from _table("Other words", {term: GLOSSARY[term] for term in others})


def _table(title: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}"
    cells = [f"| {_plain(term)} | {_plain(meaning)} |" for term, meaning in rows.items()]
    yield "\n".join(["| word | means |", "|---|---|", *cells])


def _schemas() -> Iterator[str]:
    yield "# JSON Schemas"
    yield (
        "Most commands print JSON with `--json`. A test checks what they print by these schemas. "
        f"The tables show keys to a depth of {DEEPEST}; `[]` stands for each entry of a list, and "
        "`*` for any key."
    )
    for file in sorted((DOCS / "schemas").glob("*.json")):
        schema = orjson.loads(file.read_bytes())
        yield f"## {file.stem}"
        yield f"{_plain(schema['title'])}: [{file.name}](schemas/{file.name})"
        rows = dict(_keys(schema, "", 0))
        cells = [f"| `{key}` | {_plain(kind)} |" for key, kind in rows.items()]
        yield "\n".join(["| key | type |", "|---|---|", *cells])


def _keys(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, str]]:
    for choice in schema.get("oneOf", ()) or schema.get("anyOf", ()):
        yield from _keys(choice, path, depth)
    for key, inside in schema.get("properties", {}).items():
        below = f"{path}.{key}".lstrip(".")
        yield below, _kind(inside)
        if depth + 1 < DEEPEST:
            yield from _keys(inside, below, depth + 1)
    items, others = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        yield from _keys(items, f"{path}[]", depth)
    if isinstance(others, dict):
        yield from _keys(others, f"{path}.*", depth)


def _kind(schema: Mapping[str, Any]) -> str:
    if "const" in schema or "enum" in schema:
        return ", ".join(
            orjson.dumps(each).decode() for each in schema.get("enum", [schema.get("const")])
        )
    either = schema.get("oneOf") or schema.get("anyOf")
    if either:
        return " or ".join(dict.fromkeys(map(_kind, either)))
    kind = schema.get("type", "any")
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list of {_kind(schema['items'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _database() -> Iterator[str]:
    yield "# The tables of a bundle"
    yield (
        "A bundle's `elements.db` has these tables. `snapreport query` reads them, and any SQLite "
        "client. [The README](readme.md#the-bundle) describes the other members."
    )
    for title, name in (("A recording", "schema.sql"), ("A run", "run_schema.sql")):
        sql = (ROOT / "snapreport" / "bundle" / name).read_text(encoding="utf-8")
        yield f"## {title}"
        yield f"```sql\n{sql.strip()}\n```"


def _interface() -> Iterator[str]:
    yield "# The Python interface"
    yield "Every public name of the package `snapreport`. [From Python](python.md) has examples."
    names = [name for name in snapreport.__all__ if name != "__version__"]
    kinds = {
        "Functions": [name for name in names if not inspect.isclass(getattr(snapreport, name))],
        "Classes": [name for name in names if inspect.isclass(getattr(snapreport, name))],
    }
    errors = [name for name in kinds["Classes"] if issubclass(getattr(snapreport, name), Exception)]
    kinds["Classes"] = [name for name in kinds["Classes"] if name not in errors]
    for title, these in (*kinds.items(), ("Errors", errors)):
        yield f"## {title}"
        for name in these:
            directive = "autofunction" if title == "Functions" else "autoclass"
            more = "   :members:\n" if title == "Classes" else ""
            yield f"```{{eval-rst}}\n.. {directive}:: snapreport.{name}\n{more}```"


MADE = {
    "Reference": {
        "command-line.md": _command_line,
        "python-interface.md": _interface,
        "tables.md": _database,
        "json-schemas.md": _schemas,
    },
    "Explanation": {"numbers.md": _numbers},
}
"""Pages that only the site has, by its parts."""


def make_source(folder: Path) -> None:
    """Write the site's source into an empty folder."""
    files: dict[str, Path] = {f"schemas/{file.name}": file for file in DOCS.glob("schemas/*.json")}
    texts = {name: site_text(path, files) for name, path in documents().items()}
    for made in MADE.values():
        texts |= {name: "\n\n".join(write()) + "\n" for name, write in made.items()}
    texts["index.md"] = _index(texts)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, file in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / name)
    shutil.copyfile(DOCS / "conf.py", folder / "conf.py")
    shutil.copytree(DOCS / "_static", folder / "_static")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    make_source(target)
