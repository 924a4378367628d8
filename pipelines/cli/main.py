"""`sls-lake`: the entry point, the list of verbs, and what an error looks like.

Verbs are imported when they are called: `sls-lake --help` starts in a moment, and only a verb
that lands needs Spark.

Exit codes: 0 done; 1 it was tried and failed, or a check is red; 2 what was asked for cannot
work (usage, configuration) and nothing was started; 130 stopped by Ctrl-C.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Final

import click

from sls_io.errors import ConfigError, InvariantBroken, SlsError, printable

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

VERBS: Final = {
    "emulator": "pipelines.cli.emulator",
    "load": "pipelines.cli.load",
    "plan": "pipelines.cli.plan",
    "land": "pipelines.cli.land",
    "backfill": "pipelines.cli.backfill",
    "describe": "pipelines.cli.describe",
    "verify": "pipelines.cli.verify",
    "windows": "pipelines.cli.windows",
    "table": "pipelines.cli.table",
    "checkpoints": "pipelines.cli.checkpoints",
    "demo": "pipelines.cli.demo",
    "dev": "pipelines.cli.dev",
}


class Verbs(click.Group):
    """A group whose commands live in one module each, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = VERBS.get(cmd_name)
        if module is None:
            return None
        command = getattr(importlib.import_module(module), cmd_name)
        if not isinstance(command, click.Command):
            raise InvariantBroken(f"{module}.{cmd_name} is no command")
        return command


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="sls-lake", prog_name="sls-lake")
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Drains SLS logstores into Iceberg tables, every log exactly once."""
    if debug:
        context.ensure_object(dict)["debug"] = True


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb and exit with its code. Never prints a trace unless `--debug` is given."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one verb; its exit code. Errors become one sentence on stderr."""
    session: dict[str, bool] = {}
    try:
        code = cli.main(args=list(arguments), prog_name="sls-lake", standalone_mode=False, obj=session)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error of ours, and stdout is gone.
        sys.stderr.close()
        return EXIT_FAILED
    except Exception as error:
        if session.get("debug"):
            raise
        print(f"sls-lake: {sentence(error)}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED
    return code if isinstance(code, int) else 0


def sentence(error: Exception) -> str:
    """What stderr says of `error`: our own errors name their cure, others are cut to one line."""
    if isinstance(error, SlsError):
        return str(error)
    text = printable(str(error).strip().partition("\n")[0])
    name = type(error).__name__
    return f"{name}: {text} (an error we did not foresee: run it again with --debug and keep the trace)"
