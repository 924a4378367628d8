"""Reads a `defs.yaml` strictly: what YAML takes in silence and nobody means is refused, with its line.

YAML lets the last of two equal keys win, reads `on:` as true, follows references for ever and writes
out ten of them into a billion. Dagster's own reader does all of that, so every file passes here
first: on the command line and before Dagster loads it.

Templates are filled in here for both, too. Dagster's own filling knows a whole language, reads "5" as a
number and an unset variable inside a text as `None`: the same file would be two logstores.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sls_io.errors import ConfigError, printable

BYTES_MAX = 256 * 1024
NODES_MAX = 20_000
DEPTH_MAX = 50
TEMPLATE = r"\{\{ *env\.([A-Za-z_][A-Za-z0-9_]*) *\}\}"
"""The one kind of template: the text of an environment variable."""
_TEMPLATE, _ANY_TEMPLATE = re.compile(TEMPLATE, re.ASCII), re.compile(r"\{[{%#]")
KINDS = ("SlsLogstore", "SlsProject")
"""The types of component that a file of ours is of."""
FILES = ("defs.yaml", "defs.yml")
_TEXT, _MERGE, _TIME = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Like Dagster's: what looks like a date stays text."""


_Loader.yaml_implicit_resolvers = {
    start: [(tag, pattern) for tag, pattern in found if tag != _TIME]
    for start, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_documents(path: Path) -> list[Any]:
    """The YAML documents of the file, as plain values. Raises ConfigError with file, line and cure."""
    text = _text(path)
    try:
        loader = _Loader(text)
        return [loader.construct_document(node) for node in _nodes(path, loader)]
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        where, hint = _line(error), _hint(text, error)
        raise ConfigError(f"{path}, {where}: not valid YAML{hint}; compare with the README") from error


def read_document(path: Path) -> Any:
    """The one document of the file. Raises ConfigError."""
    documents = read_documents(path) or [None]
    if len(documents) != 1:
        raise ConfigError(
            f"{path}: {len(documents)} YAML documents; write one logstore a file, in a folder of its own"
        )
    return documents[0]


def read_attributes(path: Path) -> dict[str, Any]:
    """The `attributes:` of the one document of the file, as written. Raises ConfigError."""
    document = read_document(path)
    if not isinstance(document, dict) or not isinstance(document.get("attributes"), dict):
        raise ConfigError(f"{path}: expected `type:` and `attributes:`; see the example in the README")
    attributes: dict[str, Any] = document["attributes"]
    return attributes


def filled(attributes: Mapping[str, Any], place: object) -> tuple[dict[str, Any], dict[str, str]]:
    """(values, unset): `attributes` with the templates in their texts replaced, always by text.

    After parsing: what stands in a variable is never read as YAML, and a template in a comment needs none.
    `unset` has the variable that is missing for each setting (`service.endpoint`); the value is None then.
    Raises ConfigError, with the setting, for what is another template; `place` names the file.
    """
    unset: dict[str, str] = {}

    def of(value: Any, where: str) -> Any:
        if isinstance(value, dict):
            return {key: of(inner, f"{where}.{key}" if where else str(key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [of(inner, where) for inner in value]
        if not isinstance(value, str):
            return value
        if _ANY_TEMPLATE.search(_TEMPLATE.sub("", value)):
            raise ConfigError(
                f"{place}: {printable(where)}: a template that is not understood; the only one there is is "
                "{{ env.NAME }}, a variable of the environment"
            )
        missing = [name for name in _TEMPLATE.findall(value) if name not in os.environ]
        if missing:
            unset[where] = missing[0]
            return None
        return _TEMPLATE.sub(lambda match: os.environ[match[1]], value)

    return of(dict(attributes), ""), unset


def line_of(path: Path, setting: Sequence[int | str]) -> int | None:
    """The line of a setting below `attributes`, or of the nearest one around it; None where there is none."""
    if not path.is_file():
        return None
    node, line = yaml.compose(_text(path), Loader=_Loader), None
    for name in ("attributes", *setting):
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in pairs if key.value == str(name)), None)
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def check_folder(folder: Path) -> None:
    """Read every defs.yaml below `folder` once. Raises ConfigError for the first that is refused."""
    for name in FILES:
        for path in sorted(folder.rglob(name)):
            read_documents(path)


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is no file: name a defs.yaml")
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}; name a logstore that has a defs.yaml"
        ) from error
    if len(raw) > BYTES_MAX:
        raise ConfigError(f"{path} is longer than {BYTES_MAX} bytes, which no logstore needs: shorten it")
    if b"\0" in raw:
        line = raw[: raw.index(b"\0")].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 (a zero byte); save the file as UTF-8")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8; save the file as UTF-8") from None


def _nodes(path: Path, loader: _Loader) -> Iterator[yaml.Node]:
    while loader.check_node():
        node = loader.get_node()
        if node is not None:
            _Walk(path, _is_logstore(node)).into(node, ())
            yield node


def _is_logstore(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and any(
        key.value == "type" and any(kind in str(value.value) for kind in KINDS) for key, value in node.value
    )


class _Walk:
    """Goes through a document as it would be written out. `strict`: keys must be text."""

    def __init__(self, path: Path, strict: bool) -> None:
        self._path, self._strict, self._count = path, strict, 0

    def into(self, node: yaml.Node, above: tuple[yaml.Node, ...]) -> None:
        """Raises ConfigError for a reference to itself, too many nodes, and keys twice or not text."""
        self._count += 1
        if any(node is other for other in above):
            raise self._wrong(node, "a reference to itself: write the values out")
        if self._count > NODES_MAX or len(above) > DEPTH_MAX:
            raise self._wrong(node, "too many values once its references are written out: write fewer")
        if isinstance(node, yaml.MappingNode):
            self._keys(node)
            for key, value in node.value:
                self.into(key, (*above, node))
                self.into(value, (*above, node))
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                self.into(value, (*above, node))

    def _keys(self, node: yaml.MappingNode) -> None:
        seen: dict[tuple[str, str], yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(key, "a key that is no text: write it as a word")
            shown = printable(str(key.value), 60)
            if self._strict and key.tag not in (_TEXT, _MERGE):
                kind = key.tag.rpartition(":")[2]
                raise self._wrong(key, f"the key {shown!r} is read as {kind}: put it in quotes")
            if (first := seen.setdefault((key.tag, str(key.value)), key)) is not key:
                line = first.start_mark.line + 1
                raise self._wrong(
                    key, f"the key {shown!r} is there already in line {line}, only one can hold: remove one"
                )

    def _wrong(self, node: yaml.Node, what: str) -> ConfigError:
        return ConfigError(f"{self._path}, line {node.start_mark.line + 1}: {what}")


def _line(error: Exception) -> str:
    """Where the reader stopped; and where what it was reading began, which is where the slip often is."""
    marks = [getattr(error, name, None) for name in ("context_mark", "problem_mark")]
    first, *more = sorted({mark.line + 1 for mark in marks if mark}) or [0]
    if not first:
        return "somewhere"
    return f"lines {first} to {more[-1]}" if more else f"line {first}"


def _hint(text: str, error: Exception) -> str:
    """What mostly is wrong there."""
    if isinstance(error, RecursionError):
        return " (nested too deeply)"
    mark = getattr(error, "problem_mark", None)
    lines = text.splitlines()
    if mark and mark.line < len(lines) and "\t" in lines[mark.line]:
        return " (a tab is there: YAML wants spaces)"
    return ""
