"""What answers in place of a REST catalog is named, and what to look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from chaos.site import free_port
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.trouble import not_taken
from sls_io.values.errors import TransportError


@contextmanager
def answering(status: int, body: bytes, kind: str) -> Iterator[Lake]:
    """A lake whose catalog answers each question so, but for the one about its settings, where it is JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            settings = self.path.startswith("/v1/config") and kind == "application/json"
            self.send_response(200 if settings else status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(b'{"defaults": {}, "overrides": {}}' if settings else body)

        def log_message(self, format: str, *values: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Lake({"type": "rest", "uri": f"http://127.0.0.1:{server.server_port}", "token": "s3cret"})
        finally:
            server.shutdown()
            thread.join()


PAGE = b"<html><title>Log in</title></html>"


def refusal(kind: str) -> bytes:
    return f'{{"error": {{"message": "no", "type": "{kind}", "code": 400}}}}'.encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (200, PAGE, "text/html", "what answers is no Iceberg catalog; look what answers at PYICEBERG_"),
        (
            200,
            b"{}",
            "application/json",
            "what answers is no Iceberg catalog; look what answers at PYICEBERG_",
        ),
        (401, refusal("NotAuthorized"), "application/json", "does not know whoever asks; check PYICEBERG_"),
        (403, refusal("Forbidden"), "application/json", "may not do that; give that user the right"),
        (419, refusal("Expired"), "application/json", "does not know whoever asks; check PYICEBERG_"),
    ],
)
def test_an_answer_that_is_none_of_a_catalog_says_what_to_look_at(
    status: int, body: bytes, kind: str, said: str
) -> None:
    with answering(status, body, kind) as lake, pytest.raises(TransportError) as error:
        lake.load("bronze.logs")
    assert said in str(error.value) and "s3cret" not in str(error.value)


def test_a_page_may_be_gone_at_the_next_try_and_a_right_does_not_come_by_itself() -> None:
    passes = []
    for status, body, kind in ((200, PAGE, "text/html"), (403, refusal("Forbidden"), "application/json")):
        with answering(status, body, kind) as lake, pytest.raises(TransportError) as error:
            lake.load("bronze.logs")
        assert isinstance(error.value.__cause__, Exception)
        why = not_taken(error.value.__cause__)
        passes.append(why is not None and why.passes)
    assert passes == [True, False]


def test_a_proxy_of_the_environment_that_lets_nobody_through_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(TransportError, match=r"the proxy that this environment names .*HTTP_PROXY"):
        Lake({"type": "rest", "uri": "http://catalog.invalid"}).load("bronze.logs")


def test_what_a_catalogs_address_may_hold_is_not_repeated() -> None:
    uri = f"http://reader:PASSWORD@127.0.0.1:{free_port()}/catalog?token=TOKEN"
    with pytest.raises(TransportError) as error:
        Lake({"type": "rest", "uri": uri}).load("bronze.logs")
    said = str(error.value)
    assert "PASSWORD" not in said and "TOKEN" not in said and "reader" not in said
