"""Configures Sphinx for the pages that `tools.site.pages` collects."""

from pathlib import Path

project = "Drawbridge"
author = "The Drawbridge authors"
extensions = ["myst_parser"]
# Links to headings work as on GitHub.
myst_heading_anchors = 4
myst_links_external_new_tab = False
html_theme = "furo"
html_title = "Drawbridge"
html_static_path = [str(Path(__file__).parents[2] / ".cache" / "site" / "static")]
html_js_files = ["mermaid.min.js", "start.js"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
# Transcripts contain prompts and output that are no shell.
suppress_warnings = ["misc.highlighting_failure"]
