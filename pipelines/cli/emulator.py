"""`sls-lake emulator`: the log service on loopback, in the foreground."""

import os
from pathlib import Path

import click

from pipelines.cli.output import Output, verb
from sls_io.emulator.moved_clock import checked
from sls_io.emulator.program import serve
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET

PORT = 18080


@click.command("emulator")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on 127.0.0.1; 0 picks a free one.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder that survives a kill; without it everything is in memory.",
)
@click.option("--now", type=float, metavar="SECONDS", help="Set the clock to these unix seconds.")
@click.option(
    "--salvage",
    is_flag=True,
    help="Take a damaged data folder: keep what is damaged in files beside, serve what proves itself.",
)
@verb
def emulator(output: Output, *, port: int, data: Path | None, now: float | None, salvage: bool) -> None:
    """Run the log service on loopback until Ctrl-C.

    Clients sign with ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET as they are in
    this process, or with emulator-key and emulator-secret when they are not set.
    """
    arguments = ["--port", str(port)]
    if data is not None:
        arguments += ["--data", str(data)]
    if now is not None:
        arguments += ["--now", repr(checked(now))]
    if salvage:
        arguments += ["--salvage"]
    serve(arguments, on_ready=lambda endpoint: _say_how(output, endpoint))


def _say_how(output: Output, endpoint: str) -> None:
    output.say("In another terminal:")
    output.say(f"  export SLS_ENDPOINT={endpoint}")
    if not os.environ.get("ALIBABA_CLOUD_ACCESS_KEY_ID"):
        pair = f"ALIBABA_CLOUD_ACCESS_KEY_ID={FAKE_ID} ALIBABA_CLOUD_ACCESS_KEY_SECRET={FAKE_SECRET}"
        output.say(f"  export {pair}")
    output.say("  sls-lake load --create --rows 10000")
    output.result({"endpoint": endpoint})
