"""Every form of output of a snapshot whose texts all attack: Markdown, CSV, JSON, SQL, exports."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

import snapreport
from snapreport.api.loading import open_database
from snapreport.commands.query import csv_lines, json_lines
from snapreport.ground.safe_text import csv_cell, plain_json, printable, replaced, visible
from snapreport.reporters.answers import query_document
from snapreport.reporters.markdown import code_span, escaped
from snapreport.reporters.notes import tame_notes
from tests.documents import text_of, verdict_as
from tests.exports import read_perfetto, read_pprof
from tests.hostile_text import ATTACKS, NAMES, is_calm, write_snapshot

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")

# What GitHub would link or picture in rendered text that is no code.
CALLS = re.compile(
    r"(?i)@\w|(?<!\w)#\d|\bGH-\d|\w/\w+#\d|https?://|ftp://|www\.\w|(?<!:):[a-z+-][a-z0-9_+-]*:(?!:)"
)

each_attack = pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_snapshot(tmp_path_factory.mktemp("hostile") / NAMES[0])


@pytest.fixture(scope="module")
def bundle(hostile: Path) -> Path:
    return snapreport.convert(hostile, hostile.parent / "hostile.zip")


def markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def every(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from every(token.children or [])


def check_markdown(text: str, links: tuple[str, ...] = ()) -> None:
    """Fail if Markdown has a picture, a link, HTML, a mention or a row that is not ours."""
    assert is_calm(text.replace("\u200b", ""))
    tokens = markdown().parse(text)
    ours = {"<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"}
    tag = re.compile(r"</?[a-zA-Z][^>]*>")
    width = cells = 0
    for token in every(tokens):
        if token.type.startswith("html"):
            assert set(tag.findall(token.content)) <= ours
            assert "<!" not in token.content
        assert token.type != "image"
        if token.type == "link_open":
            assert token.attrs["href"] in links
        if token.type == "text":
            assert not CALLS.search(token.content), token.content
        if token.type == "table_open":
            width = 0
        if token.type == "tr_open":
            cells = 0
        cells += token.type in ("td_open", "th_open")
        if token.type == "tr_close":
            width = width or cells
            assert cells == width
    for line in text.splitlines():
        if line.startswith("| "):
            bars = len(re.findall(r"(?<!\\)\|", line))
            assert bars >= 3


def test_there_are_more_than_thirty_attacks() -> None:
    assert len(ATTACKS) > 30
    assert len(set(ATTACKS.values())) == len(ATTACKS)


@each_attack
def test_text_in_markdown_is_text(text: str) -> None:
    check_markdown(f"{escaped(text)}\n\n- {escaped(text)}\n\n**{escaped(text)}**\n")
    tokens = list(every(markdown().parse(escaped(text))))
    known = {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
    assert {token.type for token in tokens} <= known
    rows = f"| a | b |\n|---|---|\n| {code_span(text)} | {escaped(text)} |\n| 1 | 2 |\n"
    check_markdown(rows)
    tokens = list(every(markdown().parse(rows)))
    assert [token.type for token in tokens].count("td_open") == 4
    code = [token.content for token in tokens if token.type == "code_inline"]
    assert len(code) == 1
    shown, whole = code[0].strip(), replaced(text).strip()
    assert shown.endswith(whole[-20:]) or shown.startswith(whole[:20])  # names lose their end


@each_attack
def test_a_strangers_notes_run_fetch_and_call_nothing(text: str) -> None:
    notes = tame_notes(f"{text}\n\nx {text} y\n\n> {text}\n", stranger=True)
    tokens = list(every(markdown().parse(notes)))
    assert not [t for t in tokens if t.type.startswith("html") or t.type == "image"]
    words = [t.content for t in tokens if t.type == "text"]
    assert not [word for word in words if re.search(r"@\w|#\d|GH-\d", word)]
    hrefs = [str(t.attrs["href"]) for t in tokens if t.type == "link_open"]
    assert not [href for href in hrefs if not href.startswith(("http:", "mailto:"))]


@each_attack
def test_text_for_a_terminal_and_a_spreadsheet_is_calm(text: str) -> None:
    assert is_calm(replaced(text))
    assert "\n" not in replaced(text)
    assert visible(text).isprintable()
    assert is_calm(printable(text.encode("utf-8", "surrogatepass")).decode())
    cell = csv_cell(text)
    assert not cell.lstrip().startswith(FORMULA)
    assert is_calm(cell)
    clean = text.encode("utf-8", "replace").decode()
    data = plain_json(orjson.dumps([clean]))
    assert orjson.loads(data) == [clean]
    assert is_calm(data.decode())


def test_what_is_calm_stays_as_it_is() -> None:
    for text in ("forward (model.py:7)", "at::Tensor<int>", "größer 大きい \u05d0", "-5", "+1.5e3"):
        assert visible(text) == replaced(text) == csv_cell(text) == text
        assert printable(text.encode()).decode() == text
        assert plain_json(orjson.dumps(text)) == orjson.dumps(text)


def test_the_markdown_reports_hold(hostile: Path, bundle: Path) -> None:
    folder = hostile.parent
    report = snapreport.render(hostile, folder / "report.md").read_text(encoding="utf-8")
    begin = report.index("## GPU memory: ")
    check_markdown(report[begin:])
    notes = list(every(markdown().parse(report[:begin])))
    assert not [t for t in notes if t.type.startswith("html") or t.type == "image"]
    assert len(report.encode()) < 65_536
    found = snapreport.diff(bundle, hostile)
    assert len(check_file(snapreport.render_diff(found, folder / "diff.md"))) < 65_536
    failing = ["oom", "peak", "odd-events"]
    verdict = snapreport.check(hostile, base=bundle, max_peak=1, fail_on=failing)
    check_markdown(verdict_as(verdict, "md"))


def check_file(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    check_markdown(text)
    return text


def test_the_run_of_files_with_odd_names_holds(tmp_path: Path) -> None:
    for name in NAMES:
        write_snapshot(tmp_path / name)
    (tmp_path / "<img src=x>|@me.pickle").write_bytes(b"\x80\x05N.")
    for kind in ("md", "html"):
        with ThreadPoolExecutor(1) as engine:  # processes take long to start
            report = snapreport.render_run(
                [tmp_path],
                tmp_path / kind,
                format=kind,
                pages="all" if kind == "html" else None,
                engine=engine,
            )
        assert report.path is not None
        text = report.path.read_text(encoding="utf-8")
        page = markdown().render(text) if kind == "md" else text
        targets = tuple(re.findall(r'<a href="([^"#][^"]*)"', page))
        assert len(set(targets)) == (len(NAMES) if kind == "html" else 0)
        assert all(re.fullmatch(r"ranks/[\w%.~-]+(#device=\d+)?", target) for target in targets)
        if kind == "md":
            check_markdown(text, targets)
        else:
            assert "<img" not in text
            assert is_calm(text)


def test_csv_has_no_formula_and_no_control_character(hostile: Path) -> None:
    folder = hostile.parent
    files = [snapreport.export(hostile, "csv", folder / "rows.csv").read_text("utf-8")]
    database = open_database(hostile)
    (answer,) = database.run("SELECT filename, name, '=1' AS '=2', -5, '-6', name FROM frames")
    files.append(b"".join(csv_lines(answer)).decode())
    for text in files:
        assert is_calm(text)
        rows = list(csv.reader(io.StringIO(text)))
        assert len(rows) > len(ATTACKS)
        assert {len(row) for row in rows} == {len(rows[0])}
        for row in rows:
            for cell in row:
                assert NUMBER.fullmatch(cell) or not cell.lstrip().startswith(FORMULA), cell
    assert "-5,-6," in files[1]


def test_json_gives_back_the_text_and_is_calm(hostile: Path) -> None:
    database = open_database(hostile)
    (answer,) = database.run("SELECT name FROM frames")
    data = b"".join(json_lines(answer))
    assert is_calm(data.decode())
    names = {row["name"] for row in orjson.loads(data)["rows"]}
    assert {text for key, text in ATTACKS.items() if key != "lone-surrogates"} <= names


def test_text_in_sql_is_text(hostile: Path) -> None:
    database = open_database(hostile)
    (answer,) = database.run("SELECT count(*) FROM allocations WHERE stack IS NOT NULL")
    assert list(answer.rows) == [(len(ATTACKS),)]
    for width in (100, 10_000):
        (answer,) = database.run('SELECT name, name AS "x\x1b[2J\u202e" FROM annotations')
        shown = text_of(query_document(answer, None), width)
        assert is_calm(shown)
        assert shown.count("\n") == len(ATTACKS) + 1


@pytest.mark.parametrize("kind", ["speedscope", "collapsed", "json"])
def test_exports_of_text_are_calm(hostile: Path, kind: str) -> None:
    text = snapreport.export(hostile, kind, hostile.parent / f"out.{kind}").read_text("utf-8")
    assert is_calm(text)
    if kind == "collapsed":
        for line in text.splitlines():
            assert re.fullmatch(r"[^;]+(;[^;]+)* \d+", line)
    if kind == "speedscope":
        for frame in orjson.loads(text)["shared"]["frames"]:
            assert is_calm(frame["name"] + frame.get("file", ""))


def test_exports_in_protobuf_are_calm(hostile: Path) -> None:
    folder = hostile.parent
    profile = read_pprof(snapreport.export(hostile, "pprof", folder / "out.pb.gz").read_bytes())
    assert all(text.isprintable() for text in profile.string_table)
    trace = snapreport.export(hostile, "perfetto", folder / "out.perfetto").read_bytes()
    for timeline in read_perfetto(trace).values():
        for _, _, _, arguments in timeline.slices:
            assert all(is_calm(text) for text in arguments.values() if isinstance(text, str))


def test_what_python_prints_of_a_file_is_calm(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / NAMES[1])
    loaded = snapreport.load(path)
    bundle = snapreport.convert(path, tmp_path / "x.zip")
    found = (
        loaded,
        loaded.device(),
        loaded.device().at(),
        snapreport.diff(path, bundle),
        snapreport.check(path, max_peak=1),
    )
    for each in found:
        assert repr(each).isprintable()
    html = loaded._repr_html_()
    assert is_calm(html)
    assert "<script" not in html
