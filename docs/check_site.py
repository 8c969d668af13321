"""Checks the built site: ``python -m docs.check_site FOLDER``.

No page may ask the network for anything. Every link within the site has to lead somewhere, and
every link out of it has to be an address; those are listed, and none is opened.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

_ASKS = {
    "script": ("src",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"),
    "link": ("href",), "video": ("src", "poster"), "audio": ("src",), "object": ("data",),
    "embed": ("src",), "use": ("href", "xlink:href"), "image": ("href", "xlink:href"),
}  # fmt: skip
"""What a browser fetches when it opens a page."""
_STYLE_ASKS = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """What a page fetches, where its links lead, and which places in it have a name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)
        self.fetched += _STYLE_ASKS.findall(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        values = {name: value for name, value in attrs if value}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        self.fetched += [values[name] for name in _ASKS.get(tag, ()) if name in values]
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


def faults(folder: Path) -> Iterator[str]:
    """Yield what is wrong with a site, a line each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    # The pages of recordings keep in their addresses what they show.
    named = {path: page.names for path, page in pages.items() if path.parent == folder}
    for path, page in pages.items():
        here = path.relative_to(folder)
        for address in page.fetched:
            if is_outside(address):
                yield f"{here}: asks the network for {address}"
            elif not _reached(path, address).exists():
                yield f"{here}: fetches {address}, which is not there"
        for link in page.links:
            if is_outside(link):
                if not is_address(link):
                    yield f"{here}: {link} is no address"
                continue
            target, (_, name) = _reached(path, link), urldefrag(link)
            if not target.exists():
                yield f"{here}: {link} leads nowhere"
            elif name and target in named and unquote(name) not in named[target]:
                yield f"{here}: {link} leads to a page that has no such place"
    for style in folder.rglob("*.css"):
        for address in _STYLE_ASKS.findall(style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(folder)}: asks the network for {address}"


def outside_links(folder: Path) -> list[str]:
    """Return the addresses out of the site that its own pages lead to."""
    pages = folder.glob("*.html")
    links = {link for path in pages for link in Page(path.read_text(encoding="utf-8")).links}
    return sorted(filter(is_outside, links))


def is_outside(address: str) -> bool:
    """Say whether an address leaves the site; ``data:`` is part of the page."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def is_address(link: str) -> bool:
    """Say whether a link out of the site is written as one."""
    parts = urlsplit(link)
    return parts.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc) is not None


def _reached(page: Path, address: str) -> Path:
    path = unquote(urlsplit(address).path)
    if urlsplit(address).scheme == "data" or not path:
        return page
    return (page.parent / path).resolve()


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    wrong = list(faults(site))
    for line in wrong:
        print(line, file=sys.stderr)
    outside = outside_links(site)
    print(f"{len(outside)} addresses out of the site, not opened:", *outside, sep="\n  ")
    print(f"Open this page in a browser: {(site / 'index.html').as_uri()}")
    sys.exit(bool(wrong))
