"""Says what it will make and cost, asks, tries everything on an account, prints a table, removes it all."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from real.acts import Acts
from real.asked import LANDED, QUOTA, Asked
from real.made import make, removed
from real.report import FAILED, Report
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import SlsError
from sls_io.values.settings import Credentials, provider_and_name
from sls_io.wire.credentials import resolve

INTERRUPTED = 130
HOME = Path(__file__).resolve().parents[1] / "var" / "real"


def main() -> int:
    """0: all that was tried is well and gone. 1: something is not. 130: ended by Ctrl-C, and gone."""
    try:
        return _main(_options())
    except ValidationError as error:
        _say("; ".join(each["msg"] for each in error.errors()))
    except SlsError as error:
        _say(str(error))
    return 1


def _main(options: argparse.Namespace) -> int:
    asked = Asked(
        endpoint=options.endpoint,
        region=options.region,
        proxy=options.proxy,
        credentials=_credentials(options.credentials),
        ending=_credentials(options.ending) if options.ending else None,
        warehouse=options.warehouse,
        home=options.home,
        **({"name": options.remove} if options.remove else {}),
    )
    asked.service()
    if options.remove:
        os.environ.update(asked.variables())
        return 1 if _take_away(asked, Report(()), options) else 0
    _say(*asked.preview())
    if not options.yes and not _agreed():
        _say("nothing was made")
        return 1
    os.environ.update(asked.variables())
    report = Report(resolve(asked.credentials)[:3])
    code = _play(asked, report, options)
    return code or (1 if report.failed else 0)


def _play(asked: Asked, report: Report, options: argparse.Namespace) -> int:
    code, stays = 0, True
    # A request to end is as good as Ctrl-C.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    try:
        _try_all(asked, report)
    except KeyboardInterrupt:
        code = INTERRUPTED
        report.add("run", FAILED, "interrupted")
    except Exception as error:  # whatever it is, what was made goes
        report.add("run", FAILED, f"{type(error).__name__}: {error}")
    finally:
        stays = _take_away(asked, report, options)
    _say("", *report.lines())
    return 1 if stays else code


def _try_all(asked: Asked, report: Report) -> None:
    _say(f"making project {asked.name}")
    make(asked, {LANDED: 2, QUOTA: 1})
    for name, act in Acts(asked).all():
        began_s = SYSTEM_CLOCK.monotonic()
        _say(f"trying: {name}")
        try:
            for row in act():
                report.add(*row)
        except Exception as error:  # an act that fails does not end the others
            kind = "" if isinstance(error, SlsError) else f"{type(error).__name__}: "
            report.add(name, FAILED, f"{kind}{error}")
        _say(f"        {SYSTEM_CLOCK.monotonic() - began_s:.0f} s")


def _take_away(asked: Asked, report: Report, options: argparse.Namespace) -> bool:
    """Removes all of it, whatever comes meanwhile. Whether something stays; then with the command that tries
    again."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    stays = False
    for thing, why in removed(asked):
        _say(f"{'STAYS' if why else 'removed'}: {thing.what}{f': {report.masked(why)}' if why else ''}")
        stays |= bool(why)
    if stays:
        given = [f"{name}={value}" for name, value in _given(options) if value]
        _say(f"remove it with: make real REMOVE={asked.name} {' '.join(given)}".rstrip())
    return stays


def _given(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name in ("endpoint", "region", "proxy", "credentials", "warehouse"):
        yield name.upper(), getattr(options, name)


def _agreed() -> bool:
    _say("Go on? Write yes, or call it with YES=1.")
    return sys.stdin.readline().strip() == "yes"


def _credentials(text: str) -> Credentials:
    return Credentials.model_validate(provider_and_name(text))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m real", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="such as https://cn-hangzhou.log.aliyuncs.com")
    parser.add_argument("--region", default="", help="where the endpoint does not say it")
    parser.add_argument("--proxy", default="", help="http://HOST:PORT, or env:VARIABLE")
    parser.add_argument("--credentials", default="default", help="PROVIDER[:NAME], as in service.credentials")
    parser.add_argument("--ending", default="", help="PROVIDER[:NAME] of keys that end within 20 minutes")
    parser.add_argument("--warehouse", default="", help="such as oss://BUCKET/PATH, with a catalog here")
    parser.add_argument("--home", type=Path, default=HOME, help="where it keeps its files")
    parser.add_argument("--remove", default="", metavar="PROJECT", help="only remove what such a run left")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    return parser.parse_args()


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
