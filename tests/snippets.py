"""The code blocks of the pages, as tests run them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


README = (ROOT / "README.md").read_text(encoding="utf-8")


REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


SNIPPETS = README + REFERENCE


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def snippet(begin: str) -> str:
    """The shell or Python snippet of README or reference that begins with these words, as it stands."""
    (found,) = (x for x in [*blocks(SNIPPETS, "sh"), *blocks(SNIPPETS, "python")] if x.startswith(begin))
    return found


MAKE, TERMINAL, READ, STORES = "make demo", ". var/dev/env", "from pyiceberg", "# a PostgreSQL"


TRANSFORM = "import pyarrow as pa"
