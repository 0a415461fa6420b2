"""A hook of mkdocs: on the site, links to files outside docs/ are shown as plain text.

The pages link to code and tests by relative paths, which work in a clone; the site holds no code. Whether such a link
leads to a file is checked by ``tests/test_documents.py``.
"""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page's text with the links that leave docs/ replaced by their text."""
    return without_outside_links(markdown, page.file.src_uri)


def without_outside_links(markdown: str, path: str) -> str:
    """Return the text of the page at ``path``, which is relative to docs/, without links that lead out of docs/."""
    folder = posixpath.dirname(path)

    def shown(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[1] if target.startswith("../") else link[0]

    return _LINK.sub(shown, markdown)
