"""Reads a `defs.yaml` strictly: what YAML takes in silence and nobody means is refused, with its line.

YAML lets the last of two equal keys win, reads `on:` as true, follows references for ever and writes
out ten of them into a billion. Dagster's own reader does all of that, so every file passes here
first: on the command line and before Dagster loads it.

Templates are filled in here for both, too. Dagster's own filling knows a whole language, reads "5" as a
number and an unset variable inside a text as `None`: the same file would be two logstores.

What happens otherwise: `schedule` is there twice after a merge of two branches, and the second one holds in
silence. `on: 5` has the key `True`. Seven lines, of ten values and then of ten references each, are ten
million values. No reader of YAML refuses any of these, since all of it is YAML.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from sls_io.values.errors import ConfigError, printable

BYTES_MAX = 256 * 1024
NODES_MAX = 20_000
DEPTH_MAX = 50
TEMPLATE = r"\{\{ *env\.([A-Za-z_][A-Za-z0-9_]*) *\}\}"
"""The one kind of template: the text of an environment variable."""
_TEMPLATE, _ANY_TEMPLATE = re.compile(TEMPLATE, re.ASCII), re.compile(r"\{[{%#]")
KINDS = ("SlsLogstore", "SlsProject")
"""The types of component that a file of ours is of."""
_PACKAGE = "pipelines.components."
_OURS = tuple(f"{_PACKAGE}{name}" for name in KINDS)
FILES = ("defs.yaml", "defs.yml")
KEYS = ("type", "attributes", "template_vars_module", "requirements", "post_processing")
"""What Dagster knows beside each other in such a file, of whatever type (`ComponentFileModel`)."""
_BREAK = re.compile(r"[\r\n\x85\u2028\u2029]")
_VALUE = re.compile(r"\s*(?:- +)*[^\s:#\"'{\[][^:#\"'{\[]*: +")
"""A line up to where its value begins."""
_TEXT, _MERGE, _TIME = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Like Dagster's: what looks like a date stays text."""


_Loader.yaml_implicit_resolvers = {
    start: [(tag, pattern) for tag, pattern in found if tag != _TIME]
    for start, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_documents(path: Path) -> list[Any]:
    """The YAML documents of the file, as plain values. Raises ConfigError with file, line and cure.

    Checked as a tree first, and only then made into values: a tree has lines, and references are counted in
    it before anything is written out. Worked example: a key `a` in the lines 3 and 4 is refused with both
    lines, as `line 4: the key 'a' is there already in line 3`.
    """
    text = _text(path)
    try:
        loader = _Loader(text)
        documents = []
        for node in _nodes(path, text, loader):
            documents.append(loader.construct_document(node))
            # Now that what it merges (`<<`) is among its keys.
            _require_known_keys(path, node)
        return documents
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        where, hint = _where(error), _hint(text, error)
        raise ConfigError(f"{path}, {where}: not valid YAML{hint or '; compare with the README'}") from error


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
    document = component(path, read_document(path))
    if not isinstance(document.get("attributes"), dict):
        raise ConfigError(f"{path}: expected `type:` and `attributes:`; see the example in the README")
    attributes: dict[str, Any] = document["attributes"]
    return attributes


def filled(attributes: Mapping[str, Any], place: object) -> tuple[dict[str, Any], dict[str, str]]:
    """(values, unset): `attributes` with the templates in their texts replaced, always by text.

    After parsing: what stands in a variable is never read as YAML, and a template in a comment needs none.
    `unset` has the variable that is missing for each setting (`service.endpoint`); the value is None then.
    Raises ConfigError, with the setting, for what is another template; `place` names the file.

    Worked example: A is `5` and B is not set. `x{{ env.A }}y` becomes `x5y`, and a list `["{{ env.A }}"]` the
    text `5` and no number; `b.c` with `{{ env.B }}` becomes None, and `unset` is `{"b.c": "B"}`.
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
    """The line of a setting below `attributes`, or of the nearest one around it; None where there is none.

    Worked example: `service` is in line 3 and `endpoint` in line 4 of a file. Of `service.endpoint` it is 4;
    of `service.nothing`, which is not there, 3; of `nope` 2, the line of `attributes`.
    """
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


def check_folder(folder: Path) -> list[Any]:
    """The documents of every defs.yaml below `folder`. Raises ConfigError for the first that is refused: what
    Dagster says of a file without a component, or of a type of ours that there is none, names no file."""
    files = (path for name in FILES for path in sorted(folder.rglob(name)))
    return [component(path, document) for path in files for document in read_documents(path) or [None]]


def component(path: Path, document: Any) -> dict[str, Any]:
    """A document of a file, which says of what type it is; None for the one of an empty file. Raises
    ConfigError."""
    if document is None:
        raise ConfigError(f"{path} is empty: write `type:` and `attributes:`, or remove it")
    kind = document.get("type") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(kind, str):
        raise ConfigError(f"{path}: it has no `type:`; a logstore's is {_OURS[0]}")
    if kind not in _OURS and (kind.startswith(_PACKAGE) or kind.rpartition(".")[2] in KINDS):
        raise no_such_type(path, kind)
    return document


def no_such_type(path: Path, kind: str) -> ConfigError:
    """What is said of a type that nobody can load: it is most often ours with a slip of the pen."""
    meant = get_close_matches(kind, _OURS, 1, 0.8)
    hint = f"did you mean {meant[0]}?" if meant else f"a logstore's is {_OURS[0]}"
    return ConfigError(f"{path}: there is no type {printable(kind)!r}: {hint}")


def write_whole(path: Path, text: str) -> None:
    """Write a file of a project. Raises OSError, and then the old one, or none, is there: half of a list, or
    of a file of settings, would be taken for a whole one.

    The bytes are on the disk before the name is moved: after a crash of the machine a rename may be there and
    what was written not. Beside the old file, since a rename is atomic within one file system only.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


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


def _nodes(path: Path, text: str, loader: _Loader) -> Iterator[yaml.Node]:
    while loader.check_node():
        node = loader.get_node()
        if node is not None:
            _Walk(path, text, _is_logstore(node)).into(node, ())
            yield node


def _is_logstore(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and any(
        key.value == "type" and any(kind in str(value.value) for kind in KINDS) for key, value in node.value
    )


class _Walk:
    """Goes through a document as it would be written out. `strict`: keys must be text.

    `into` is called for a node as often as it would be written out, so what ten references to ten references
    make is counted before it is made: 20,000 nodes end it. A node above itself is a reference that would
    never end.
    """

    def __init__(self, path: Path, text: str, strict: bool) -> None:
        self._path, self._text, self._strict, self._count = path, text, strict, 0

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
                if cure := _cure(self._text, key.start_mark):
                    raise self._wrong(key, cure)
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


def _require_known_keys(path: Path, node: yaml.Node) -> None:
    """Raises ConfigError for a key beside `attributes` that Dagster does not know: it would load nothing,
    and who reads the attributes alone would never see a setting that is there."""
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        name = str(key.value)
        if name in KEYS:
            continue
        close = get_close_matches(name, KEYS, 1, 0.75)
        meant = (
            f"did you mean {close[0]}?"
            if close
            else "a setting belongs under `attributes:`, further right than it; values with an anchor, where "
            "they are used first"
        )
        raise ConfigError(
            f"{path}, line {key.start_mark.line + 1}: {printable(name, 60)}: no such key beside `type:`, "
            f"where Dagster knows {', '.join(KEYS[1:])}; {meant}"
        )


def _where(error: Exception) -> str:
    """Where the reader stopped; else where what it was reading began."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return _at(mark) if mark else "somewhere"


def _at(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _hint(text: str, error: Exception) -> str:
    """What mostly is wrong there, by the characters at the marks of the error."""
    if isinstance(error, RecursionError):
        return " (nested too deeply)"
    mark, begin = (getattr(error, name, None) for name in ("problem_mark", "context_mark"))
    if mark is None:
        return ""
    if "\t" in _line(text, mark):
        return " (a tab is there: YAML wants spaces)"
    for place in filter(None, (begin, mark)):
        if cure := _cure(text, place):
            return f": {cure}"
    if text[mark.index : mark.index + 1] == ":":
        if _VALUE.match(_line(text, mark)[: mark.column]):
            return ": a second colon; put a value with a colon in it in quotes"
        return ": the line before it has no colon after its key, or this one is indented too far"
    return _hint_of_lines(text, begin, mark) if begin and begin.line != mark.line else ""


def _hint_of_lines(text: str, begin: yaml.Mark, mark: yaml.Mark) -> str:
    """The same of what began in another line than the one where the reader stopped."""
    if text[begin.index : begin.index + 1] in ("'", '"'):
        return f": the quote that opens in {_at(begin)} has no end; close it"
    indent = _line(text, mark)[: mark.column]
    if begin.line < mark.line and begin.column < mark.column and not indent.strip():
        return (
            f": this line is indented by {mark.column} spaces, and what it stands beside, from line "
            f"{begin.line + 1} on, by {begin.column}; write both alike"
        )
    return f": what is read there begins in {_at(begin)}; compare with the README"


def _cure(text: str, mark: yaml.Mark) -> str:
    """What to write where a value begins, at the mark or before it in the line, with what YAML reads as
    something else; "" where it does not."""
    line = _line(text, mark)
    before = line[: mark.column]
    if before[-1:] in ("'", '"') and before.count(before[-1]) % 2:
        return "a quote that opens in a line before ends here; close it where its value ends"
    value = _VALUE.match(line)
    begins = {mark.column} | ({value.end()} if value and value.end() <= mark.column else set())
    for column in sorted(begins):
        if line[column : column + 2] == "{{" or line[max(column - 1, 0) : column + 1] == "{{":
            whole = _TEMPLATE.search(line, max(column - 1, 0))
            shown = whole[0] if whole else "{{ env.NAME }}"
            return f'a template is put in quotes, "{shown}", with what stands before and after it'
        if line[column : column + 1] == "*":
            return (
                'a value that begins with * is a reference to YAML: put it in quotes, such as "*/5 * * * *"'
            )
        if line[column : column + 1] in ("@", "`", "%"):
            return f"a value cannot begin with {line[column]}: put it in quotes"
    return ""


def _line(text: str, mark: yaml.Mark) -> str:
    """The line that the mark is in, as the reader of YAML counts lines."""
    begin = mark.index - mark.column
    found = _BREAK.search(text, begin)
    return text[begin : found.start() if found else len(text)]
