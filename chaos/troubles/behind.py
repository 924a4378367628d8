"""A lake behind a catalog of another class: where what a catalog may do wrong is put in."""

from pyiceberg.catalog import Catalog

from pipelines.landing.table.lake import Lake


def behind(lake: Lake, implementation: type[Catalog], **said: str) -> Lake:
    """The same lake, as PyIceberg loads a catalog of one's own (`py-catalog-impl`), with these properties."""
    properties = {name: value for name, value in lake.properties.items() if name != "type"}
    named = f"{implementation.__module__}.{implementation.__name__}"
    return Lake({**properties, "py-catalog-impl": named, **said})
