"""`sls-lake check`: every logstore's defs.yaml read as Dagster will read it. Asks no service."""

from pathlib import Path

import click

from pipelines.cli.logstores import DEFS, known, project_root
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, verb


@click.command("check")
@verb
def check(output: Output) -> None:
    """Read every logstore's defs.yaml, and say what is wrong with it.

    An endpoint whose variable is not set is a note: definitions load without it, and say so when something
    runs. Everything else that would keep them from loading is an error.
    """
    from pipelines.landing.defs_file import read_document
    from pipelines.landing.environment import filled
    from pipelines.landing.logstore import checked
    from sls_io.errors import ConfigError

    root = project_root()
    found, names = [], dict[str, Path]()
    for folder in known(root):
        path, wrong, unset, name = root / DEFS / folder / "defs.yaml", "", "", ""
        try:
            document = read_document(path)
            attributes = document.get("attributes") if isinstance(document, dict) else None
            if not isinstance(attributes, dict):
                raise ConfigError(f"{path}: expected `type:` and `attributes:`; see the README")
            values, unset = filled(attributes, path)
            name = checked(values, path).name
            if (other := names.setdefault(name, path)) != path:
                raise ConfigError(
                    f"{path}: its table makes it the logstore {name}, and so does {other}: Dagster tells "
                    "logstores apart by the last part of `table`; rename one"
                )
        except ConfigError as error:
            wrong = str(error)
        if wrong:
            output.say(f"[red]wrong[/]: {_escaped(wrong)}")
        elif unset:
            output.say(f"[yellow]not set[/]: {_escaped(str(path))} takes its endpoint from {unset}")
        found.append({"path": str(path), "logstore": name, "wrong": wrong, "unset": unset})
    bad = sum(bool(each["wrong"]) for each in found)
    output.say(f"{len(found)} logstores read, {bad} wrong")
    output.result({"logstores": found, "ok": not bad})
    if bad:
        click.get_current_context().exit(EXIT_FAILED)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
