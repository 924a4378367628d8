"""`--where`: what a person says of rows, read exactly, and held against each row by no other rule.

    filter   test, or filters joined by `and`, `or`, `not` and parentheses
    test     column = value   (also == != <> < <= > >=, and with the value first)
             column [not] in (value, ...)        column [not] between value and value
             column is [not] null                column is [not] nan
             column [not] like 'text'            `%` any text, `_` one character, `\\` before them: themselves
    column   a name as the table has it, with dots and all; in "..." whatever it holds, a quote as two
    value    'text'    every character is itself, a quote is written as two
             E'text'   with escapes: \\n \\r \\t \\0 \\\\ \\' \\xHH \\uHHHH \\UHHHHHHHH
             12  -1.5  1e299     numbers are exact: one that the column cannot hold is refused, not rounded
             true  false         '2026-11-20'        '2026-11-20T07:00:00+00:00'        X'00ff' (bytes)

A comparison with null is neither true nor false, so it takes no row, and neither does its opposite. 0.0
and -0.0 are equal, NaN is equal to nothing: ask `is nan`. Of columns that are no single value (maps) only
`is null` can be asked.

Why not PyIceberg's own language: it splits names at dots, takes 1.5 for 2 where the column is a long,
turns tabs into blanks, has no way to write a newline, a lone backslash or 1e299, and fails on maps. What
decides whether a row goes for good must be exact.

A text becomes a filter in three steps: it is parsed (`_parsed`), so that its shape is known; bound to a
schema (`_bound_to`), so that each value is one that its column can have; and asked of batches (`taken`). Only
the first two can fail, so a filter that was made takes or leaves each row of each file, and a removal that
runs for an hour does not end in its middle because of a value. Worked example, with rows a = 1, a = 2 and a
null: `a = 1` takes the first, `not (a = 1)` and `a != 1` the second, and the third is taken by none of them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    NestedField,
)
from pyparsing import (
    CaselessKeyword,
    DelimitedList,
    Forward,
    MatchFirst,
    Optional,
    ParseBaseException,
    ParserElement,
    ParseResults,
    Regex,
    Suppress,
    ZeroOrMore,
)

from pipelines.landing.contents.literals import CONVERT, Unfit, Value, pattern_of
from sls_io.values.errors import ConfigError, printable

FILTER_CHARS_MAX = 1_000_000
_DEPTH_MAX = 100
_HOUR = "__receive_hour__"

_OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PRUNE: dict[str, Callable[..., BooleanExpression]] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_TEXTS = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "0": "\0",
    "\\": "\\",
    "'": "'",
}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


Leaf = TypeVar("Leaf")


@dataclass(frozen=True)
class _Test:
    """One test of a column; `op` is a sign, `in`, `like`, `null` or `nan`."""

    column: str
    op: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class _Joined(Generic[Leaf]):
    """`and`, `or`, `not` of others."""

    op: str
    parts: tuple["_Joined[Leaf] | Leaf", ...]


@dataclass(frozen=True)
class _Bound:
    """A test with its field, and its values as the column has them."""

    test: _Test
    field: NestedField
    values: tuple[Any, ...] = ()


_Tree = _Joined[_Test] | _Test
_BoundTree = _Joined[_Bound] | _Bound


@dataclass(frozen=True)
class Where:
    """A filter bound to the columns of a schema. `fields` are the ids of those it names."""

    tree: _BoundTree
    schema: Schema

    @property
    def fields(self) -> frozenset[int]:
        """The ids of the columns that are named."""
        return frozenset(test.field.field_id for test in _leaves(self.tree))

    @property
    def columns(self) -> list[str]:
        """Their names, sorted."""
        return sorted({test.field.name for test in _leaves(self.tree)})

    def taken(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For each row whether the filter takes it, never null. `batch` has the columns by name."""
        return pc.fill_null(self._mask(self.tree, batch), False)

    @property
    def values(self) -> tuple[NestedField, pa.Array] | None:
        """The column and its values where the filter is `column = value` or `column in (...)`; None for any
        other one."""
        bound = self.tree
        if not isinstance(bound, _Bound) or bound.test.op not in ("=", "in"):
            return None
        return bound.field, pa.array(list(bound.values), schema_to_pyarrow(bound.field.field_type))

    @property
    def pruning(self) -> BooleanExpression:
        """What every row that is taken fulfils and files can be left out by: receive hours alone, which
        are the table's partitions. Statistics of other columns are other writers' word."""
        return self._pruned(self.tree)

    def _mask(self, tree: _BoundTree, batch: pa.RecordBatch) -> Any:
        """Kleene's rules: of `not (a = 1)` a row whose a is null is neither taken nor left by the test, and
        what is null at the end is not taken. So a filter and its opposite both leave it."""
        if isinstance(tree, _Bound):
            return _column_mask(tree, batch.column(tree.field.name))
        masks = [self._mask(part, batch) for part in tree.parts]
        if tree.op == "not":
            return pc.invert(masks[0])
        join = pc.and_kleene if tree.op == "and" else pc.or_kleene
        whole = masks[0]
        for mask in masks[1:]:
            whole = join(whole, mask)
        return whole

    def _pruned(self, tree: _BoundTree) -> BooleanExpression:
        """A part narrows the files only where every taken row fulfils it, which is so below `and` alone:
        under `or` a row may be taken by the other part, under `not` by the opposite.

        Worked example: `__receive_hour__ < H and (a = 1 or a = 2)` reads the files before H. With `or` in the
        place of that `and`, or `not` before it, all files are read. More files are only slower; one too few
        would leave a row that was to go.
        """
        if isinstance(tree, _Bound):
            if tree.field.name == _HOUR and tree.test.op in _PRUNE:
                return _PRUNE[tree.test.op](term=_HOUR, value=tree.values[0].isoformat())
        elif tree.op == "and":
            whole: BooleanExpression = AlwaysTrue()
            for part in tree.parts:
                whole = And(whole, self._pruned(part))
            return whole
        return AlwaysTrue()


def quoted(column: str) -> str:
    """A column's name as a filter has it, whatever the name holds."""
    return '"' + column.replace('"', '""') + '"'


def parse(text: str, schema: Schema) -> Where:
    """The filter `text` on columns of `schema`. Raises ConfigError, which never repeats a value of it."""
    if len(text) > FILTER_CHARS_MAX:
        raise ConfigError(f"--where has {len(text)} characters, more than {FILTER_CHARS_MAX}")
    try:
        tree = _parsed(text)
    except RecursionError:
        raise ConfigError("--where has too many parentheses within one another") from None
    return Where(_bound_to(tree, schema), schema)


def _parsed(text: str) -> _Tree:
    """Parentheses are counted first, outside of texts: the parser calls itself for each, and Python's own
    stack would end it in the middle.

    `and` binds before `or`, `not` before both. Worked example: `a=1 or b='x' and a=2` is a=1, or both of the
    others. `3 < a` is turned into a > 3, so that a test begins with its column wherever that was written.
    """
    depth = deepest = 0
    for sign in re.sub(r"'[^']*'|\"[^\"]*\"", "", text):
        depth += (sign == "(") - (sign == ")")
        deepest = max(deepest, depth)
    if deepest > _DEPTH_MAX:
        raise RecursionError
    try:
        tree: _Tree = _FILTER.parse_string(text, parse_all=True)[0]
    except ParseBaseException as error:
        raise ConfigError(
            f"--where cannot be read, from character {error.loc + 1} on; compare columns with values, as in "
            f"user = 'x' and {_HOUR} < '2026-11-20T07:00:00+00:00' (a quote is written twice, an escape as "
            "in E'\\n'; --help tells more)"
        ) from None
    return tree


def _bound_to(tree: _Tree, schema: Schema) -> _BoundTree:
    if isinstance(tree, _Test):
        return _bind(tree, schema)
    return _Joined(tree.op, tuple(_bound_to(part, schema) for part in tree.parts))


def _leaves(tree: _BoundTree) -> Iterator[_Bound]:
    if isinstance(tree, _Bound):
        yield tree
    else:
        for part in tree.parts:
            yield from _leaves(part)


# --- the language --------------------------------------------------------------------------------


def _unescaped(text: str) -> str:
    """Two quotes are made an escaped one first, so that one pass reads both."""

    def one(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is None:
            if match[4] not in _TEXTS:
                raise ConfigError(
                    "--where has an escape in E'...' that there is not; there are \\n \\r \\t \\0 \\\\ \\' "
                    "\\xHH \\uHHHH \\UHHHHHHHH"
                )
            return _TEXTS[match[4]]
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise ConfigError("--where has an escape in E'...' that is no character")
        return chr(number)

    return _ESCAPE.sub(one, text.replace("''", "\\'"))


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ConfigError("--where has a number that is beyond all columns") from None


def _grammar() -> ParserElement:
    words = {w: CaselessKeyword(w) for w in "and or not is in null nan like between true false".split()}
    keyword = MatchFirst(words.values())
    name = ~keyword + Regex(r"[^\W\d][\w.$-]*")
    in_quotes = Regex(r'"(?:[^"]|"")+"').set_parse_action(lambda t: t[0][1:-1].replace('""', '"'))
    column = in_quotes | name
    plain = Regex(r"'(?:[^']|'')*'").set_parse_action(lambda t: t[0][1:-1].replace("''", "'"))
    escaped = Regex(r"[eE]'(?:[^'\\]|\\.|'')*'", re.DOTALL)
    escaped.set_parse_action(lambda t: _unescaped(t[0][2:-1]))
    octets = Regex(r"[xX]'(?:[0-9a-fA-F]{2})*'").set_parse_action(lambda t: [bytes.fromhex(t[0][2:-1])])
    number = Regex(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
    number.set_parse_action(lambda t: _exact(t[0]))
    truth = (words["true"] | words["false"]).set_parse_action(lambda t: [t[0].lower() == "true"])
    text = escaped | plain
    value = octets | text | number | truth
    sign = Regex(r"<=|>=|<>|!=|==|=|<|>")
    sign.set_parse_action(lambda t: {"==": "=", "<>": "!="}.get(t[0], t[0]))
    no = Optional(words["not"]).set_parse_action(lambda t: [bool(t)])
    some = Suppress("(") + DelimitedList(value) + Suppress(")")
    left = (column + sign + value).set_parse_action(lambda t: _Test(t[0], t[1], (t[2],)))
    right = (value + sign + column).set_parse_action(lambda t: _Test(t[2], _OPPOSITE[t[1]], (t[0],)))
    among = (column + no + Suppress(words["in"]) + some).set_parse_action(
        lambda t: _not(t[1], _Test(t[0], "in", tuple(t[2:])))
    )
    between = column + no + Suppress(words["between"]) + value + Suppress(words["and"]) + value
    between.set_parse_action(
        lambda t: _not(t[1], _Joined("and", (_Test(t[0], ">=", (t[2],)), _Test(t[0], "<=", (t[3],)))))
    )
    like = (column + no + Suppress(words["like"]) + text).set_parse_action(
        lambda t: _not(t[1], _Test(t[0], "like", (t[2],)))
    )
    being = column + Suppress(words["is"]) + no + (words["null"] | words["nan"])
    being.set_parse_action(lambda t: _not(t[1], _Test(t[0], t[2].lower())))
    whole = Forward()
    one = among | between | like | being | left | right | Suppress("(") + whole + Suppress(")")
    negated = (ZeroOrMore(words["not"]) + one).set_parse_action(lambda t: _not(len(t) % 2 == 0, t[-1]))
    both = (negated + ZeroOrMore(Suppress(words["and"]) + negated)).set_parse_action(_join("and"))
    whole <<= (both + ZeroOrMore(Suppress(words["or"]) + both)).set_parse_action(_join("or"))
    # Left to itself, pyparsing turns tabs into blanks, in texts too.
    return whole.parse_with_tabs()


def _not(negated: bool, tree: _Tree) -> _Tree:
    return _Joined("not", (tree,)) if negated else tree


def _join(op: str) -> Callable[[ParseResults], _Tree]:
    return lambda t: t[0] if len(t) == 1 else _Joined(op, tuple(t))


_FILTER = _grammar()


# --- against columns -----------------------------------------------------------------------------


def _bind(test: _Test, schema: Schema) -> _Bound:
    """The column by its exact name, then what may be asked of its type, then each value as the type has it.
    Raises ConfigError, which names the column and never the value."""
    field = next((f for f in schema.fields if f.name == test.column), None)
    shown = printable(test.column)
    if field is None:
        twin = next((f.name for f in schema.fields if f.name.lower() == test.column.lower()), None)
        hint = f"; there is {printable(twin)!r}" if twin else ""
        raise ConfigError(
            f"--where names {shown!r}, which is no column of the table{hint}; a key that `columns` does not "
            "declare is in __rest__, and can be asked for once it is declared"
        )
    kind = field.field_type
    if test.op == "null":
        return _Bound(test, field)
    if test.op == "nan":
        if not isinstance(kind, FloatType | DoubleType):
            raise ConfigError(f"--where asks whether {shown!r} is NaN, but it is {_called(kind)}")
        return _Bound(test, field)
    convert = CONVERT.get(type(kind))
    if convert is None:
        raise ConfigError(
            f"--where compares {shown!r}, which is {_called(kind)}: of such a column only `is null` and "
            "`is not null` can be asked"
        )
    try:
        if test.op == "like":
            return _Bound(test, field, (pattern_of(kind, test.values[0]),))
        if isinstance(kind, BooleanType) and test.op in ("<", "<=", ">", ">="):
            raise Unfit("= or != true or false")
        return _Bound(test, field, tuple(convert(kind, value) for value in test.values))
    except Unfit as error:
        raise ConfigError(
            f"--where compares {shown!r} ({_called(kind)}) with a value that it cannot have: it takes {error}"
        ) from None


def _called(kind: IcebergType) -> str:
    return "a map" if str(kind).startswith("map") else str(kind)


def _column_mask(bound: _Bound, column: pa.Array) -> Any:
    """A set answers false for a null, so that is made null again: what is not known is not known."""
    op, kind = bound.test.op, bound.field.field_type
    if op == "null":
        return pc.is_null(column)
    wanted = schema_to_pyarrow(kind)
    column = column if column.type == wanted else column.cast(wanted)
    if op == "nan":
        return pc.is_nan(column)
    if op == "like":
        return pc.match_substring_regex(column, bound.values[0])
    scalars = [pa.scalar(value, wanted) for value in bound.values]
    if op != "in":
        return _COMPARE[op](column, scalars[0])
    if isinstance(kind, FloatType | DoubleType):
        # A set tells 0.0 from -0.0, a comparison does not.
        found = pc.equal(column, scalars[0])
        for scalar in scalars[1:]:
            found = pc.or_(found, pc.equal(column, scalar))
        return found
    found = pc.is_in(column, value_set=pa.array(list(bound.values), wanted))
    return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))
