"""`dg scaffold defs pipelines.components.SlsLogstore NAME`: a commented `defs.yaml` that loads as it stands.

    dg scaffold defs pipelines.components.SlsLogstore access_logs --project demo

`sls-lake new` writes the same file and its columns, too.
"""

import dagster as dg
from pydantic import BaseModel, Field

from pipelines.landing.first_file import ENDPOINT, Named, ask, text
from pipelines.landing.logstore import checked
from sls_io.values.errors import ConfigError


class LogstoreFlags(BaseModel):
    """What `dg scaffold` may be told; each has a default."""

    endpoint: str = Field(default=ENDPOINT, description="Of the service; a variable of the environment.")
    project: str = Field(default="demo", description="Project in the service.")
    logstore: str = Field(default="", description="Logstore in the service.  [default: NAME]")
    group: str = Field(default="lake", description="Consumer group.")
    table: str = Field(default="", description="namespace.name in the catalog.  [default: bronze.NAME]")
    start: str = Field(
        default="", description="First hour, YYYY-MM-DD-HH:MM UTC.  [default: the oldest log's]"
    )


class LogstoreScaffolder(dg.Scaffolder[LogstoreFlags]):
    """Writes the file. Raises ConfigError for what would not load, and then nothing is written."""

    @classmethod
    def get_scaffold_params(cls) -> type[LogstoreFlags]:
        """The flags."""
        return LogstoreFlags

    def scaffold(self, request: dg.ScaffoldRequest[LogstoreFlags]) -> None:
        """Write `defs.yaml` into the folder of the request."""
        if request.scaffold_format != "yaml" or request.append:
            raise ConfigError(
                "a logstore is one YAML file in a folder of its own: scaffold it under a new name"
            )
        path, asked = request.target_path / "defs.yaml", request.params
        named = Named.of(request.target_path.name, **asked.model_dump(exclude={"start"}))
        start, why = asked.start, "As it was asked for."
        if not start:
            answer = ask(named)
            start, why = answer.start, answer.why
        checked(named.settings(start), path)
        path.write_text(text(named, start, why), encoding="utf-8")
