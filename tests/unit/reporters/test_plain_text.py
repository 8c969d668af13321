"""Strangers' text in terminals, tables and issue comments."""

from __future__ import annotations

import builtins

import pytest
from markdown_it import MarkdownIt

from snapreport.ground.safe_text import replaced
from snapreport.reporters.markdown import code_span, escaped
from snapreport.reporters.notes import tame_notes
from snapreport.reporters.plain_text import cut_place, cut_site, location
from snapreport.reporters.text import Page

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "a | b",
    "`tick` and ``two``",
    "`",
    "*bold* _under_ [link](javascript:alert(1)) ![i](x)",
    "line\nbreak\r\n\x1b[31mred\x07",
    "right\u202eleft\u2066 \u2028sep",
    "\\| backslash \\",
    "<!-- comment -->",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_one_line_has_no_control_and_direction_characters(text: str) -> None:
    line = replaced(text)
    assert line.isprintable()
    assert len(line) == len(text)


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (60, "silu  /home/ann/cs336/basics/model.py:532"),
        (40, "silu  …/ann/cs336/basics/model.py:532"),
        (30, "silu  …/basics/model.py:532"),
        (20, "silu  …/model.py:532"),
        (18, "silu  …odel.py:532"),
        (13, "silu  …py:532"),
        (10, "silu"),
        (4, "silu"),
        (3, "si…"),
    ],
)
def test_a_call_site_loses_folders_then_the_file_and_never_the_function(
    room: int, shown: str
) -> None:
    assert cut_site("silu  /home/ann/cs336/basics/model.py:532", room) == shown
    assert len(shown) <= room


def test_a_windows_path_loses_its_folders_first() -> None:
    assert cut_place("C:\\work\\train\\model.py:5", 15) == "…\\model.py:5"


def test_the_reason_for_having_no_file_keeps_its_beginning() -> None:
    reason = "recorded without frames (no Python on that thread)"
    assert cut_place(reason, 30) == "recorded without frames (no P…"
    assert cut_site(reason, 30) == cut_place(reason, 30)


def test_a_long_template_loses_its_arguments_then_its_end() -> None:
    name = "at::gpu_kernel<at::Add<float, std::array<char*, 3ul> > >::run"
    assert cut_site(name, 61) == name
    assert cut_site(name, 40) == "at::gpu_kernel<…>::run"
    assert cut_site(name, 20) == "at::gpu_kernel<…>::…"
    assert cut_site("<lambda>  " + "a/" * 40 + "x.py", 20) == "<lambda>  …/a/a/x.py"


def test_short_text_stays_as_it_is() -> None:
    assert cut_place("short", 9) == "short"
    assert replaced("short") == "short"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_code_span_in_a_table_is_one_cell_of_code(text: str) -> None:
    table = f"| a | b |\n|---|---|\n| {code_span(text)} | end |\n"
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(table)
    assert html.count("<td>") == 2
    assert "<td>end</td>" in html
    assert "<img" not in html
    assert html.count("<code>") == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_renders_as_itself(text: str) -> None:
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(f"x{escaped(text)}x")
    assert all(tag not in html for tag in ("<img", "<a ", "<em>", "<strong>", "<code>", "<!--"))


def test_escaped_text_mentions_nobody_and_links_nowhere() -> None:
    assert "@someone" not in escaped("@someone")
    assert "://" not in escaped("https://example.org")
    assert "www." not in escaped("www.example.org")
    assert "#12" not in escaped("see #12")
    assert escaped("ProfilerStep#0") == "ProfilerStep\\#0"


def test_raw_html_in_notes_is_text_and_code_stays_code() -> None:
    notes = (
        "# Run\n\nif `a < b` then <b>bold</b> <script>x</script>\n\n<div>\n<img src=x>\n</div>\n\n"
        "    if a < b:\n\n```py\nc <d> e\n```\n\n`<b>` <b>\n"
    )
    shown = tame_notes(notes)
    assert "`a < b`" in shown
    assert "    if a < b:" in shown
    assert "c <d> e" in shown
    assert "`<b>` &lt;b>" in shown
    html = MarkdownIt("commonmark", {"html": True}).render(shown)
    assert all(tag not in html for tag in ("<b>", "<script", "<div", "<img"))


def test_a_strangers_notes_with_html_code_and_mentions_keep_their_code() -> None:
    notes = "# Run\n\nask @ann about `a < b` <b>now</b>\n\n```py\n@cache\nc <d> e\n"
    assert tame_notes(notes, stranger=True) == (
        "# Run\n\nask @\u200bann about `a < b` &lt;b>now&lt;/b>\n\n```py\n@cache\nc <d> e\n\n```"
    )


@pytest.mark.parametrize(
    "notes",
    [
        "> " * 25 + "<script>x</script>\n",  # deeper than the parser looks
        "<!-- a -->\n" * 1001,
        "a <b>\n\n" * 4000,
        "|a" * 100 + "\n" + "|-" * 100 + "\n" + "a <b>\n" * 100,
        "> " * 20 + "a\n" * 8000,
    ],
)
def test_a_strangers_notes_that_take_long_to_parse_are_one_block_of_code(notes: str) -> None:
    shown = tame_notes(notes, stranger=True)
    assert shown == "\n".join(f"    {line}" for line in notes.strip("\n").split("\n"))
    tokens = MarkdownIt("commonmark", {"html": True}).parse(shown)
    assert [token.type for token in tokens] == ["code_block"]


def test_only_a_strangers_notes_are_limited() -> None:
    notes = "a <b>\n\n" * 600
    assert tame_notes(notes) == "a &lt;b>\n\n" * 600


@pytest.mark.parametrize(
    "notes",
    [
        "<!-- a -->\n    <b>\n",  # the code is a paragraph's once the comment is one
        'a <b title="`"> c `<d>` e',
        "[a]: <b\n<div>",
        "x ![<img src=x>](y)",
        "<div>\n```\n</div>\n<b>\n",
    ],
)
def test_escaping_makes_no_html_of_code_nearby(notes: str) -> None:
    for stranger in (False, True):
        shown = tame_notes(notes, stranger) + "\n\ny <i>"
        tokens = MarkdownIt("commonmark", {"html": True}).parse(shown)
        inside = [child.type for token in tokens for child in token.children or ()]
        assert [token.type for token in tokens].count("html_block") == 0
        assert inside.count("html_inline") == 1


def test_a_location_without_a_file_is_empty() -> None:
    assert location("??", 0) == location("", None) == location("none", 0) == ""
    assert location("train.py", None) == "train.py"
    assert location("train.py", 3) == "train.py:3"


def test_text_made_in_a_notebook_is_returned_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    page = Page(80)
    page.say("said")
    assert page.render() == b"said\n"
    assert capsys.readouterr().out == ""
