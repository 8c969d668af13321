"""The documents as a site: each has a place, links lead somewhere, and samples are shown."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import yaml

import snapreport
from docs import make_site, make_site_pages
from docs.check_site import faults, is_address, outside_links
from snapreport.commands import cli
from snapreport.ground.glossary import GLOSSARY

FENCE = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
TEXTS = {path: path.read_text(encoding="utf-8") for path in make_site.documents().values()}


def places(text: str) -> set[str]:
    """Return the names that GitHub gives to the headings of a document."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {f"{name}-{k}" if k else name for name, most in found.items() for k in range(most + 1)}


@pytest.mark.parametrize("document", TEXTS, ids=lambda path: path.name)
def test_a_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    text = FENCE.sub("", TEXTS[document])
    for target, name in re.findall(r"\]\(([^)\s#:]*)(?:#([^)\s]+))?\)", text):
        file = (document.parent / target).resolve() if target else document
        assert file.exists(), target
        assert not name or file not in TEXTS or name in places(TEXTS[file]), f"{target}#{name}"


@pytest.mark.parametrize("document", TEXTS, ids=lambda path: path.name)
def test_a_link_to_another_site_is_an_address(document: Path) -> None:
    for link in re.findall(r"\]\((\w+:[^)\s]*)\)", FENCE.sub("", TEXTS[document])):
        assert is_address(link), link


def test_every_document_has_one_place_in_the_site() -> None:
    placed = [name for names in make_site.parts().values() for name in names]
    made = [name for pages in make_site.MADE.values() for name in pages]
    assert sorted(placed) == sorted({*make_site.documents(), *made} - {"index.md"})


def test_the_documents_show_every_page_that_is_made() -> None:
    samples = {make_site_pages.sample_name(path) for path in make_site_pages.sample_files()}
    assert len(samples) > 8
    forecasts = {"tutorial-1", "tutorial-2", "tutorial-3"}
    assert make_site_pages.shown_pages() == samples | forecasts | {"tutorial-diff", "run"}


def test_the_site_has_what_the_package_says_of_itself(tmp_path: Path) -> None:
    make_site.make_source(tmp_path)
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.md")}
    for name, command in cli.commands.items():
        _, _, text = pages["command-line.md"].partition(f"\n## {name}\n")
        text = text.partition("\n## ")[0]
        for option in command.params:
            assert not option.opts[0].startswith("-") or option.opts[0] in text, (name, option)
    for name in set(snapreport.__all__) - {"__version__"}:
        kind = "class" if inspect.isclass(getattr(snapreport, name)) else "function"
        assert f".. auto{kind}:: snapreport.{name}\n" in pages["python-interface.md"]
    for term in GLOSSARY:
        assert f"| {make_site._plain(term)} | " in pages["numbers.md"]
    assert "| `source.sha256` | string |" in pages["json-schemas.md"]
    assert "CREATE TABLE allocation" in pages["tables.md"]
    assert "](commands.md)" in pages["readme.md"]
    assert '<iframe src="pages/tutorial-1.html"' in pages["tutorial.md"]
    assert '<a class="picture" href="pages/two_streams.html"' in pages["gallery.md"]
    assert "<!-- p" not in pages["tutorial.md"] + pages["gallery.md"]
    assert (tmp_path / "schemas" / "summary.json").is_file()


def test_a_fault_of_the_built_site_is_told(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("@import '//fonts.example/a.css'; a { b: url(c.png) }")
    (tmp_path / "other.html").write_text("<h1 id='here'>x</h1><img src='data:image/png;base64,AA'>")
    (tmp_path / "index.html").write_text(
        "<script src='https://cdn.example/x.js'></script><img src='gone.png'>"
        "<a href='other.html#here'></a><a href='other.html#gone'></a><a href='gone.html'></a>"
        "<a href='https://example.org/x'></a><a href='http:/example'></a>"
    )
    assert sorted(faults(tmp_path)) == [
        "index.html: asks the network for https://cdn.example/x.js",
        "index.html: fetches gone.png, which is not there",
        "index.html: gone.html leads nowhere",
        "index.html: http:/example is no address",
        "index.html: other.html#gone leads to a page that has no such place",
        "style.css: asks the network for //fonts.example/a.css",
    ]
    assert outside_links(tmp_path) == ["http:/example", "https://example.org/x"]


def test_the_workflow_publishes_what_make_docs_builds_once_that_is_switched_on() -> None:
    text = (make_site.ROOT / ".github" / "workflows" / "docs.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    (site,) = re.findall(r"^SITE := (\S+)$", (make_site.ROOT / "Makefile").read_text(), re.M)
    build, publish = jobs["build"]["steps"], jobs["publish"]
    assert {"run": "make docs"} in build
    assert [step["with"]["path"] for step in build if "upload" in step.get("uses", "")] == [site]
    assert publish["needs"] == "build"
    assert "vars.PUBLISH_DOCS == 'true'" in publish["if"]
