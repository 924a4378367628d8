"""Which values may not land of a logstore, as its table says, and what a writer has to know of them."""

from pyiceberg.schema import Schema

from pipelines.landing.barring import Bar, Barring
from pipelines.landing.ledger.start import namesakes
from pipelines.landing.ledger.state import TableState
from pipelines.landing.table.contract import SYSTEM_COLUMNS, Contract
from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError, printable
from sls_io.wire.client import Origin


def bars_of(state: TableState, origin: Origin) -> frozenset[Bar]:
    """The values that may not land of a logstore: also those that were barred before it was deleted and made
    again."""
    same = {origin.id, *namesakes(state, origin)}
    return frozenset(bar for bar in state.forgotten.bars.values if bar.origin in same)


def barring_of(state: TableState, origin: Origin, contract: Contract, schema: Schema) -> Barring:
    """The same for who writes rows with this contract and schema.

    Story: a person asked to be forgotten, the key `user` is taken out of the settings. Its values go to
    `__rest__` from then on, where no bar looks, and that person's rows land. So raises ConfigError where a
    column with bars is not declared any more.
    """
    names = {field.field_id: field.name for field in schema.fields}
    shown = {*SYSTEM_COLUMNS, *(column.name for column in contract.shown)}
    columns: dict[str, tuple[int, frozenset[str]]] = {}
    for bar in bars_of(state, origin):
        name = names.get(bar.field)
        if name is None or name not in shown:
            what = f"the column {printable(name)!r}" if name else f"a column that is gone (id {bar.field})"
            raise ConfigError(
                f"values of {what} may not land (`table forget --from-now-on`), and it is not declared: "
                "nobody could tell which rows have one, so nothing is landed",
                cures=(Do("declare the column again, or end that decision with `table forget --end`"),),
            )
        columns[name] = (bar.field, columns.get(name, (0, frozenset()))[1] | {bar.digest})
    hashed = frozenset(column.name for column in contract.shown if column.pii == "hash")
    return Barring(state.forgotten.bars.salt, columns, hashed)
