"""Makes the site's live pages and pictures: ``python -m docs.make_site_pages FOLDER``.

They are pages as users get them: of the sample snapshots, of what the tutorial records, of two
recordings compared, and of a run of several ranks.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import snapreport
from docs.make_site import MARK, documents
from tests.docs.examples import SAMPLES, is_like
from tests.docs.made_runs import make_runs
from tests.docs.tutorial import TUTORIAL, follow

STILL = re.compile(
    r'<svg class="still-curves" (viewBox="[^"]*" preserveAspectRatio="none")[^>]*>(.*?)</svg>',
    re.DOTALL,
)
STYLE = """
<style>
path, line { vector-effect: non-scaling-stroke; fill: none }
.grid { stroke: #8884 }
path.allocated { fill: #3b7dd8; fill-opacity: .65 }
path.requested { stroke: #888 }
path.reserved { stroke: #c2410c; stroke-width: 1.75; stroke-dasharray: 7 3 }
</style>
"""


def sample_name(path: Path) -> str:
    """Return what the site calls the page of a sample."""
    return path.name.partition(".")[0]


def sample_files() -> list[Path]:
    """Return the sample snapshots."""
    return sorted(
        path for path in SAMPLES.iterdir() if path.suffix not in (".py", ".md") and path.is_file()
    )


def shown_pages() -> set[str]:
    """Return the names of the pages that the documents show."""
    texts = [path.read_text(encoding="utf-8") for path in documents().values()]
    return {mark[2] for text in texts for mark in MARK.finditer(text)}


def make_pages(folder: Path) -> None:
    """Write each page into a folder, and beside it a picture of its timeline if it has one."""
    for sample in sample_files():
        snapreport.render(sample, folder / f"{sample_name(sample)}.html")
    with tempfile.TemporaryDirectory() as name:
        _follow_tutorial(Path(name) / "tutorial", folder)
        make_runs(Path(name))
        snapreport.render_run(Path(name) / "memory_snapshot", folder / "run.html")
    for page in sorted(folder.glob("*.html")):
        still = STILL.search(page.read_text(encoding="utf-8"))
        if still:
            opening = f'<svg xmlns="http://www.w3.org/2000/svg" {still[1]}>'
            picture = f"{opening}{STYLE}{still[2]}</svg>\n"
            page.with_suffix(".svg").write_text(picture, encoding="utf-8")


def _follow_tutorial(work: Path, folder: Path) -> None:
    work.mkdir()
    before = Path.cwd()
    os.chdir(work)
    os.environ["COLUMNS"] = "100"
    try:
        for example, printed in follow(TUTORIAL.read_text(encoding="utf-8"), work):
            assert is_like(printed, example.output or ""), f"{example.code}\n{printed}"
    finally:
        os.chdir(before)
    for run in (work / "train.forecast").glob("[0-9]*"):
        shutil.copyfile(run / "report.html", folder / f"tutorial-{run.name}.html")
    shutil.copyfile(work / "diff.html", folder / "tutorial-diff.html")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    make_pages(target)
    made = {page.stem for page in target.glob("*.html")}
    assert made >= shown_pages(), shown_pages() - made
