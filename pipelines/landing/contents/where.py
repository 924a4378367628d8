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
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
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
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
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

from sls_io.values.errors import ConfigError, printable

FILTER_CHARS_MAX = 1_000_000
_DEPTH_MAX = 100
_PATTERN_CHARS_MAX = 1000
_HOUR = "__receive_hour__"

_Value = str | bytes | bool | Decimal
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
_TOO_FINE = re.compile(r"[.,]\d{7,}")
_INTS: dict[IcebergType, int] = {IntegerType(): 31, LongType(): 63}


class _Unfit(Exception):
    """A value that the column cannot have; the words say what it could."""


@dataclass(frozen=True)
class _Test:
    """One test of a column; `op` is a sign, `in`, `like`, `null` or `nan`."""

    column: str
    op: str
    values: tuple[_Value, ...] = ()


@dataclass(frozen=True)
class _Joined:
    """`and`, `or`, `not` of others."""

    op: str
    parts: tuple["_Joined | _Test", ...]


@dataclass(frozen=True)
class _Bound:
    """A test with its field, and its values as the column has them."""

    test: _Test
    field: NestedField
    values: tuple[Any, ...] = ()


_Tree = _Joined | _Test


@dataclass(frozen=True)
class Where:
    """A filter bound to the columns of a schema. `fields` are the ids of those it names."""

    tree: _Tree
    bound: dict[int, _Bound]
    schema: Schema

    @property
    def fields(self) -> frozenset[int]:
        """The ids of the columns that are named."""
        return frozenset(b.field.field_id for b in self.bound.values())

    @property
    def columns(self) -> list[str]:
        """Their names, sorted."""
        return sorted({b.field.name for b in self.bound.values()})

    def taken(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For each row whether the filter takes it, never null. `batch` has the columns by name."""
        return pc.fill_null(self._mask(self.tree, batch), False)

    @property
    def values(self) -> tuple[NestedField, pa.Array] | None:
        """The column and its values where the filter is `column = value` or `column in (...)`; None for any
        other one."""
        if not isinstance(self.tree, _Test) or self.tree.op not in ("=", "in"):
            return None
        bound = self.bound[id(self.tree)]
        return bound.field, pa.array(list(bound.values), schema_to_pyarrow(bound.field.field_type))

    @property
    def pruning(self) -> BooleanExpression:
        """What every row that is taken fulfils and files can be left out by: receive hours alone, which
        are the table's partitions. Statistics of other columns are other writers' word."""
        return self._pruned(self.tree)

    def _mask(self, tree: _Tree, batch: pa.RecordBatch) -> Any:
        """Kleene's rules: of `not (a = 1)` a row whose a is null is neither taken nor left by the test, and
        what is null at the end is not taken. So a filter and its opposite both leave it."""
        if isinstance(tree, _Test):
            bound = self.bound[id(tree)]
            return _column_mask(bound, batch.column(bound.field.name))
        masks = [self._mask(part, batch) for part in tree.parts]
        if tree.op == "not":
            return pc.invert(masks[0])
        join = pc.and_kleene if tree.op == "and" else pc.or_kleene
        whole = masks[0]
        for mask in masks[1:]:
            whole = join(whole, mask)
        return whole

    def _pruned(self, tree: _Tree) -> BooleanExpression:
        """A part narrows the files only where every taken row fulfils it, which is so below `and` alone:
        under `or` a row may be taken by the other part, under `not` by the opposite."""
        if isinstance(tree, _Test):
            bound = self.bound[id(tree)]
            if bound.field.name == _HOUR and tree.op in _PRUNE:
                return _PRUNE[tree.op](term=_HOUR, value=bound.values[0].isoformat())
        elif tree.op == "and":
            whole: BooleanExpression = AlwaysTrue()
            for part in tree.parts:
                whole = And(whole, self._pruned(part))
            return whole
        return AlwaysTrue()


def parse(text: str, schema: Schema) -> Where:
    """The filter `text` on columns of `schema`. Raises ConfigError, which never repeats a value of it."""
    if len(text) > FILTER_CHARS_MAX:
        raise ConfigError(f"--where has {len(text)} characters, more than {FILTER_CHARS_MAX}")
    try:
        tree = _parsed(text)
    except RecursionError:
        raise ConfigError("--where has too many parentheses within one another") from None
    bound: dict[int, _Bound] = {}
    for test in _tests(tree):
        bound[id(test)] = _bind(test, schema)
    return Where(tree, bound, schema)


def _parsed(text: str) -> _Tree:
    """Parentheses are counted first, outside of texts: the parser calls itself for each, and Python's own
    stack would end it in the middle."""
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


def _tests(tree: _Tree) -> Iterator[_Test]:
    if isinstance(tree, _Test):
        yield tree
    else:
        for part in tree.parts:
            yield from _tests(part)


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
    quoted = Regex(r'"(?:[^"]|"")+"').set_parse_action(lambda t: t[0][1:-1].replace('""', '"'))
    column = quoted | name
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
        raise ConfigError(f"--where names {shown!r}, which is no column of the table{hint}")
    kind = field.field_type
    if test.op == "null":
        return _Bound(test, field)
    if test.op == "nan":
        if not isinstance(kind, FloatType | DoubleType):
            raise ConfigError(f"--where asks whether {shown!r} is NaN, but it is {_called(kind)}")
        return _Bound(test, field)
    convert = _CONVERT.get(type(kind))
    if convert is None:
        raise ConfigError(
            f"--where compares {shown!r}, which is {_called(kind)}: of such a column only `is null` and "
            "`is not null` can be asked"
        )
    try:
        if test.op == "like":
            return _Bound(test, field, (_pattern(kind, test.values[0]),))
        if isinstance(kind, BooleanType) and test.op in ("<", "<=", ">", ">="):
            raise _Unfit("= or != true or false")
        return _Bound(test, field, tuple(convert(kind, value) for value in test.values))
    except _Unfit as error:
        raise ConfigError(
            f"--where compares {shown!r} ({_called(kind)}) with a value that it cannot have: it takes {error}"
        ) from None


def _called(kind: IcebergType) -> str:
    return "a map" if str(kind).startswith("map") else str(kind)


def _pattern(kind: IcebergType, value: _Value) -> str:
    if not isinstance(kind, StringType) or not isinstance(value, str):
        raise _Unfit("no `like`, only comparisons")
    if (len(value) - len(value.rstrip("\\"))) % 2:
        raise _Unfit("a pattern that does not end with a lone backslash, which would escape nothing")
    if len(value) > _PATTERN_CHARS_MAX:
        raise _Unfit(f"a pattern of at most {_PATTERN_CHARS_MAX} characters")
    return _regex(_text(kind, value))


def _regex(pattern: str) -> str:
    """A `like` pattern as a regular expression of RE2. Arrow's own `match_like` misreads two backslashes.

    Each character by its number, so none of it means anything to RE2. Worked example: `a%` is
    `(?s)^(?:\\x{61}.*)$`.
    """
    parts, escaped = list[str](), False
    for sign in pattern:
        if not escaped and sign == "\\":
            escaped = True
            continue
        if not escaped and sign in "%_":
            parts.append(".*" if sign == "%" else ".")
        else:
            parts.append(f"\\x{{{ord(sign):x}}}")
        escaped = False
    return f"(?s)^(?:{''.join(parts)})$"


def _text(kind: IcebergType, value: _Value) -> str:
    if not isinstance(value, str):
        raise _Unfit("a text in quotes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Unfit("a text of whole characters, which UTF-8 has") from None
    return value


def _number(value: _Value) -> Decimal:
    """A number, also where it stands in quotes."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except (ArithmeticError, ValueError):
            raise _Unfit("a number") from None
    if not isinstance(value, Decimal):
        raise _Unfit("a number")
    return value


def _int(kind: IcebergType, value: _Value) -> int:
    number = _number(value)
    bits = _INTS[kind]
    fits = number.is_finite() and number.adjusted() < 20 and number == number.to_integral_value()
    if not fits or not -(2**bits) <= int(number) < 2**bits:
        raise _Unfit(f"a whole number of {bits + 1} bits")
    return int(number)


def _float(kind: IcebergType, value: _Value) -> float:
    """A number that the column can have, written exactly or as its values are shown.

    Story: `d = 9007199254740993` would take the row of 9007199254740992.0, the nearest double, and delete
    what nobody named. `0.1` is what the nearest double is shown as everywhere, so it is that one.
    """
    number = _number(value)
    if number.is_nan():
        raise _Unfit("a number; ask `is nan` for NaN")
    found = float(number)
    if isinstance(kind, FloatType):
        found = float(pa.scalar(found, pa.float32()).as_py())
    if number.is_finite() and (abs(found) == float("inf") or (found == 0) != (number == 0)):
        raise _Unfit("a number within its range")
    shown = {Decimal(found), Decimal(repr(found))}
    if isinstance(kind, FloatType):
        shown.add(Decimal(str(np.float32(found))))
    if number not in shown:
        raise _Unfit("a number that it can hold, written exactly or as a row shows it")
    return found


def _decimal(kind: IcebergType, value: _Value) -> Decimal:
    """By digits, without arithmetic: a Decimal's own is rounded to the digits of its context.

    Worked example, decimal(5,2): 1.500 has the digits 1500 and one place too many, which is 0: 150, so 1.50.
    1.505 has a 5 there and is refused. 1e2 gets four zeros: 10000, five digits, 100.00. 1e3 would have six.
    """
    number = _number(value)
    if not isinstance(kind, DecimalType) or not number.is_finite():
        raise _Unfit("a finite number")
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise _Unfit("a finite number")
    figures = "".join(map(str, digits)).lstrip("0")
    shift = exponent + kind.scale
    if figures and shift < 0:
        if figures[shift:].strip("0") or len(figures) <= -shift:
            raise _Unfit(f"a number of at most {kind.scale} places")
        figures = figures[:shift]
    elif figures:
        if len(figures) + shift > kind.precision:
            raise _Unfit(f"a number of at most {kind.precision} digits")
        figures += "0" * shift
    if len(figures) > kind.precision:
        raise _Unfit(f"a number of at most {kind.precision} digits")
    return Decimal((sign, tuple(map(int, figures or "0")), -kind.scale))


def _bool(kind: IcebergType, value: _Value) -> bool:
    if not isinstance(value, bool):
        raise _Unfit("true or false")
    return value


def _bytes(kind: IcebergType, value: _Value) -> bytes:
    if not isinstance(value, bytes):
        raise _Unfit("bytes in hex, like X'00ff'")
    return value


def _date(kind: IcebergType, value: _Value) -> date:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise _Unfit("a day such as '2026-11-20'") from None


def _moment(kind: IcebergType, value: _Value) -> datetime:
    try:
        text = value if isinstance(value, str) else ""
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None and not _TOO_FINE.search(text):
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise _Unfit("a moment to the microsecond, with its zone, such as '2026-11-20T07:00:00+00:00'")


_CONVERT: dict[type, Callable[[Any, _Value], Any]] = {
    StringType: _text,
    BooleanType: _bool,
    IntegerType: _int,
    LongType: _int,
    FloatType: _float,
    DoubleType: _float,
    DecimalType: _decimal,
    DateType: _date,
    TimestamptzType: _moment,
    BinaryType: _bytes,
}


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
