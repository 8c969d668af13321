"""Sphinx's settings for the site: ``make docs``."""

from __future__ import annotations

from snapreport.ground.version import __version__

project = "snapreport"
author = "the snapreport authors"
copyright = author  # noqa: A001  (Sphinx's name)
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["extra"]
smartquotes = False
"""It would turn the two hyphens of an option into a dash."""

myst_heading_anchors = 4
"""As GitHub has them: links such as ``commands.md#the-recording`` lead to a heading."""
myst_enable_extensions = ["deflist"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True

html_theme = "furo"
html_title = "snapreport"
pygments_dark_style = "monokai"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]
html_copy_source = False
html_show_sphinx = False
