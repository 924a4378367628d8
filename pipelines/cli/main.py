"""`sls-lake`: the entry point, the list of verbs, and what an error looks like.

Verbs are imported when they are called: `sls-lake --help` starts in a moment, and only a verb
that lands needs Spark.

Exit codes: 0 done; 1 it was tried and failed, or a check is red; 2 what was asked for cannot
work (usage, configuration) and nothing was started; 3 nothing is wrong, and logs that can still be
landed are owed (`verify`); 130 stopped by Ctrl-C; 141 whoever reads the output has gone (`| head`).

With `--json` an error is a document on stdout, too, unless the verb has printed its own:
{"error": {"kind", "message", "exit_code"}}, with "cures" where something settles it, each {"call", "does"} or
{"do"}, and "code" where the service named one. `kind` is a class of `sls_io.values.errors`, or `usage`,
`stopped`, `unforeseen`.
"""

import errno
import json
import logging
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from pipelines.cli import session as sessions
from pipelines.cli.errors import err, facts, kind_of, say, sentence, unwritten
from pipelines.cli.loading import loaded
from pipelines.cli.logstores import LOGSTORE_OPTIONS, check_named, logstore_option
from pipelines.cli.session import BEGUN, DEBUG, SAID, UNWRITTEN
from pipelines.landing import json_log
from pipelines.landing.table.commands import PROGRAM
from pipelines.landing.umask import keep_others_out
from sls_io.values.errors import (
    DISK,
    ConfigError,
    InvariantBroken,
    SlsError,
    printable,
)

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_OWED: Final = 3
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
TYPED_CHARS_MAX: Final = 800

VERBS: Final = {
    "init": ("pipelines.cli.init", "Make a Dagster project, or give one that is there what it lacks."),
    "new": (
        "pipelines.cli.new",
        "Write a logstore's defs.yaml, its columns too; --refresh keeps new ones of a project.",
    ),
    "emulator": ("pipelines.cli.emulator", "Run the log service on loopback until Ctrl-C."),
    "load": ("pipelines.cli.load", "Put lines of a file, or generated rows, into a logstore."),
    "check": (
        "pipelines.cli.check",
        "Show the logstores that are set up, and what is wrong with their settings.",
    ),
    "doctor": ("pipelines.cli.doctor", "Try all that a landing needs, and say what to change."),
    "land": ("pipelines.cli.land", "Land what is new and publish the checkpoints, without Dagster."),
    "backfill": ("pipelines.cli.backfill", "Land what hours lack, or replace them; moves no checkpoint."),
    "describe": ("pipelines.cli.describe", "Show every shard: state, holder, frontier, lag, runway."),
    "metrics": ("pipelines.cli.metrics", "Serve what describe says as metrics for Prometheus."),
    "peek": ("pipelines.cli.peek", "Show some logs of a shard, from a time or a cursor on."),
    "verify": ("pipelines.cli.verify", "Prove gaps, holes, rows and sums, and each row there once."),
    "landings": ("pipelines.cli.landings", "What landed, and what is on its way: show, abort."),
    "table": ("pipelines.cli.table", "Settle a table, or maintain it."),
    "checkpoints": ("pipelines.cli.checkpoints", "Positions: show where they are, set them by copying."),
    "groups": ("pipelines.cli.groups", "Consumer groups: list, describe, set, delete."),
    "shards": ("pipelines.cli.shards", "Shards: list, split, merge, pause, resume."),
    "stage": ("pipelines.cli.stage", "Give a logstore its dbt models."),
    "dbt": ("pipelines.cli.dbt", "Run dbt with the environment that its models need."),
    "demo": ("pipelines.cli.demo.program", "Show the whole path, from log lines to a proof."),
    "dev": ("pipelines.cli.demo.dev", "Run emulator, producer and Dagster's page until Ctrl-C."),
}
"""Each verb's module, and its line in the list of verbs, which imports none of them."""
_OF_OUTPUT: Final = {*DISK, errno.EIO, errno.EBADF, errno.EINVAL}
"""Why an output that is there takes nothing."""
_STOPPED: Final = "stopped; what was committed by then stays, and asking for the same again is safe"
_OWN_NAMES: Final = {"dev", "dbt", "metrics", "new"}
"""What they are given is a list of logstores, a name in the service, or not ours."""
_OF_A_LOGSTORE: Final = {"doctor", "land", "describe", "verify"}
"""With no option but `--json` and a dry run these verbs can be wrong about their logstore alone."""


class Verbs(click.Group):
    """A group whose commands live in one module each, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _ = VERBS[cmd_name]
        command = getattr(loaded(module), cmd_name)
        if not isinstance(command, click.Command):
            raise InvariantBroken(f"{module}.{cmd_name} is no command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs by their list: click would import each of them to ask whether it is hidden."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(verb, help=line)
            for verb, (_, line) in VERBS.items()
            if verb.startswith(incomplete)
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in VERBS and args[0] not in _OWN_NAMES and not ctx.params.get("debug"):
            alone = set(args[1:]) <= {"--json", sessions.DRY_RUN}
            check_named(args[1:], needed=args[0] in _OF_A_LOGSTORE and alone)
        if ctx.resilient_parsing and args[0] not in _OWN_NAMES and args[-1] in LOGSTORE_OPTIONS:
            # A shell asks for names of logstores: what the verb does is not needed for that.
            return args[0], _of_a_logstore(args[0]), args[1:]
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=VERBS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


def _of_a_logstore(name: str) -> click.Command:
    """A verb that has the option of a logstore and takes whatever stands beside it."""
    takes_all = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.command(name, context_settings=takes_all)(logstore_option(lambda: None))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="sls-lake", prog_name="sls-lake")
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
def cli(debug: bool) -> None:
    """Drains SLS logstores into Iceberg tables, every log exactly once."""
    if debug:
        sessions.keep(DEBUG, True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb and exit with its code. Never prints a trace unless `--debug` is given."""
    _open_closed_streams()
    keep_others_out()
    _log_as_asked()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _log_as_asked() -> None:
    """Logs go to the stderr there is now: while a landing works, Java's noise goes to a file."""
    try:
        if json_log.asked():
            json_log.speak(os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", buffering=1))
    except ConfigError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def _open_closed_streams() -> None:
    """Standard streams that the shell has closed (`>&-`) lead nowhere. Story: the next file that is opened
    gets the free number, a data file the 1, and what a library prints goes into it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def run(arguments: Sequence[str]) -> int:
    """Run one verb; its exit code. Errors become one sentence on stderr, and their cures."""
    session: dict[str, Any] = {
        sessions.TYPED: shlex.join([PROGRAM, *(x for x in arguments if x != "--json")])
    }

    def told(exit_code: int, kind: str, message: str, more: Mapping[str, Any] | None = None) -> int:
        # The flag by its text: wrong usage may end before any verb has seen it.
        if "--json" in arguments and not session.get(SAID):
            print(
                json.dumps(
                    {"error": {"kind": kind, "message": message, "exit_code": exit_code, **(more or {})}}
                )
            )
        return exit_code

    try:
        _check_folder()
        code = cli.main(args=list(arguments), prog_name="sls-lake", standalone_mode=False, obj=session)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return told(error.exit_code, "usage", "a verb is missing")
    except click.ClickException as error:
        # It repeats what was typed, whatever that is.
        shown = printable(error.format_message(), TYPED_CHARS_MAX)
        if not json_log.say(logging.ERROR, shown):
            _as_click_says(error, shown).show()
        return told(error.exit_code, "usage", shown)
    except KeyboardInterrupt:
        return _stopped(told)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error of ours, and stdout is gone.
        sys.stderr.close()
        return EXIT_PIPE
    except Exception as error:
        return _stopped(told) if _is_stop(error) else _failed(error, session, told)
    return code if isinstance(code, int) else 0


def _check_folder() -> None:
    """Raises ConfigError where the working folder was removed: what imports or looks about there fails."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise ConfigError("the folder that this was typed in is gone: change to one that is there") from None


def _stopped(told: Callable[..., int]) -> int:
    err(logging.WARNING, _STOPPED)
    return told(EXIT_INTERRUPTED, "stopped", _STOPPED)


def _failed(error: Exception, session: Mapping[str, Any], told: Callable[..., int]) -> int:
    """The exit code of a verb that ended with an error, which is said; `told` is who says it to programs."""
    # Before a verb has begun all that is written is its help.
    unwritten_yet = session.get(UNWRITTEN) or not session.get(BEGUN)
    if isinstance(error, OSError) and unwritten_yet and error.filename is None and error.errno in _OF_OUTPUT:
        _let_go_of_stdout()
        err(logging.ERROR, f"sls-lake: {unwritten(error)}")
        return EXIT_FAILED
    if session.get(DEBUG):
        traceback.print_exc()
    named = say(error, session)
    code = EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED
    return told(code, kind_of(error), sentence(error), facts(error, named))


def _as_click_says(error: click.ClickException, shown: str) -> click.ClickException:
    return (
        click.UsageError(shown, error.ctx)
        if isinstance(error, click.UsageError)
        else click.ClickException(shown)
    )


def _is_stop(error: BaseException | None) -> bool:
    """Whether a Ctrl-C is behind it. Story: a library is imported, checks its own classes, and calls whatever
    ends that an error of the class. What our own errors say after a Ctrl-C is to be read."""
    seen = set[int]()
    while error is not None and not isinstance(error, SlsError) and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt | click.Abort):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _let_go_of_stdout() -> None:
    """What is left in its buffer goes nowhere: Python would try it again at the end, and say so once more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
