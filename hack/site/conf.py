# Sphinx makes the site from docs/: `make site`. Every warning is an error, among them links to pages and headings that do not exist.
import posixpath
import re

project = "Cluster API Provider Bare Metal"
author = "The authors of Cluster API Provider Bare Metal"
copyright = author
root_doc = "README"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["requirements.txt"]

# The slugs of headings are those of GitHub, so that a link works on both.
myst_heading_anchors = 4
myst_enable_extensions = ["tasklist"]

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
# Nothing is fetched from elsewhere: the site works without the Internet.
html_use_opensearch = ""
copybutton_exclude = ".linenos, .gp, .go"

# What a link check cannot reach: addresses of examples, and this project's own pages of GitHub.
linkcheck_ignore = [r"https?://[^/]*\.example(/|$)", r"https?://(192\.0\.2|198\.51\.100|127\.0\.0)\.", r"https://github\.com/capbm-io/"]

SOURCE = "https://github.com/capbm-io/cluster-api-provider-baremetal/blob/main/"
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def outside(page, target):
    """The path of a link in the repository, if it leads out of docs/ (a file of the source), or None."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def read(app, page, source):
    """Link to files of the repository on GitHub, and give the first page its navigation."""

    def link(match):
        path = outside(page, match.group(1))
        return match.group(0) if path is None else f"]({SOURCE}{path}{match.group(2) or ''})"

    source[0] = LINK.sub(link, source[0])
    if page == root_doc:
        with open(posixpath.join(app.confdir, "navigation.md"), encoding="utf-8") as navigation:
            source[0] += "\n" + navigation.read()


def setup(app):
    app.connect("source-read", read)
