"""What our errors are in Dagster: one sentence on the run's page, and no retry."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from pipelines.components.logstore.schedule import unset_text
from pipelines.landing.inspection.cures import give_cures
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.commands import line
from sls_io.values.errors import ConfigError, SlsError


@contextmanager
def plainly(logstore: Logstore) -> Iterator[None]:
    """Our errors as one sentence in the run's page, their cures below it, and never retried in the same
    process: a retried step would start a second reader beside tasks of the first."""
    try:
        yield
    except SlsError as error:
        raise dg.Failure(
            description="\n".join([str(error), *(line(cure, logstore.option) for cure in error.cures)]),
            metadata={"error": type(error).__name__},
            allow_retries=False,
        ) from error


@contextmanager
def naming_cures(logstore: Logstore) -> Iterator[None]:
    """An unreadable file is named with what settles it. Not around what runs every few minutes: looking for
    cures reads older landings."""
    try:
        yield
    except SlsError as error:
        give_cures(error, logstore)
        raise


def require_endpoint(logstore: Logstore, unset: str) -> None:
    """Raises ConfigError when `unset` names the environment variable of the endpoint."""
    if unset:
        raise ConfigError(unset_text(logstore, unset))
