"""The files that hold the page's own code against the Python model are fresh.

``make golden`` rewrites them; ``templates/app/lib/golden.test.ts`` reads them.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from snapreport.ground.glossary import GLOSSARY
from tests.golden import page_golden
from tests.golden.format_golden import formats

MOST_BYTES = 400_000


@pytest.mark.parametrize("name", page_golden.SAMPLES)
def test_what_the_page_is_held_against_is_fresh(
    name: str, samples: Path, rewrite_golden: bool
) -> None:
    content = page_golden.write(page_golden.golden_file(samples / name))
    compare(content, page_golden.FOLDER / f"{name.split('.')[0]}.json", rewrite_golden)


def test_what_the_page_of_a_comparison_is_held_against_is_fresh(rewrite_golden: bool) -> None:
    content = page_golden.write(page_golden.compared_file())
    compare(content, page_golden.FOLDER / "compared.json", rewrite_golden)


def test_the_formats_that_the_page_is_held_against_are_fresh(rewrite_golden: bool) -> None:
    content = page_golden.write(formats())
    compare(content, page_golden.FOLDER / "formats.json", rewrite_golden)


def test_the_page_has_the_definitions_of_the_glossary(rewrite_golden: bool) -> None:
    path = page_golden.FOLDER.parent / "lib" / "glossary.json"
    told = {term: GLOSSARY[term] for term in orjson.loads(path.read_bytes())}
    compare(orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n", path, rewrite_golden)


def compare(content: bytes, stored: Path, rewrite: bool) -> None:
    if rewrite and (
        not stored.exists() or page_golden.read(stored.read_bytes()) != page_golden.read(content)
    ):
        stored.write_bytes(content)
    assert page_golden.read(content) == page_golden.read(stored.read_bytes()), "run: make golden"


def test_the_files_for_the_page_stay_small() -> None:
    assert sum(path.stat().st_size for path in page_golden.FOLDER.glob("*.json")) < MOST_BYTES
