"""A hook of the site: what lies outside of `docs` is no page there, and is named where a page links to it."""

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """The page without links that leave `docs`; their file stands behind the words."""
    docs = Path(config["docs_dir"]).resolve()
    here = (docs / page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        path = target.relative_to(docs.parent).as_posix()
        return link[1] if path in link[1] else f"{link[1]} (`{path}`)"

    return _LINK.sub(named, markdown)
