"""What we rely on inside the vendor's SDK, pinned: a new version that moves it must fail here first.

`transport.py` replaces `LogClient._send`, subclasses both signers and raises errors that are also
LogExceptions. None of that is the SDK's public interface.
"""

import inspect
import re
from importlib.metadata import version
from pathlib import Path

import aliyun.log
from aliyun.log import LogClient
from aliyun.log.auth import AuthV1, AuthV4
from aliyun.log.credentials import Credentials
from aliyun.log.logexception import LogException

ROOT = Path(aliyun.log.__path__[0])


def _parameters(function: object) -> list[str]:
    assert callable(function)
    return list(inspect.signature(function).parameters)


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("aliyun-log-python-sdk") == "0.9.52"


def test_send_takes_what_ours_takes() -> None:
    assert _parameters(vars(LogClient)["_send"]) == [
        "self",
        "method",
        "project",
        "body",
        "resource",
        "params",
        "headers",
        "respons_body_type",
        "compute_content_hash",
    ]


def test_every_call_of_the_client_goes_through_send() -> None:
    """Nothing beside `_send` and its helpers touches the SDK's own HTTP layer."""
    text = (ROOT / "logclient.py").read_text(encoding="utf-8")
    methods = re.split(r"\n    def ", text)
    direct = {
        m.split("(")[0] for m in methods if re.search(r"_sendRequest\(|_getHttpResponse\(|_session\b", m)
    }
    assert direct == {"__init__", "_get_http_sender", "_getHttpResponse", "_sendRequest", "_send"}
    for name in ("logclient_core.py", "logclient_operator.py"):
        other = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"_sendRequest|_getHttpResponse|\brequests\.(get|post|put|delete)", other)


def test_the_constructor_takes_a_provider_a_source_and_a_region() -> None:
    wanted = {"endpoint", "source", "region", "credentials_provider"}
    assert wanted <= set(_parameters(LogClient.__init__))


def test_signers_take_what_we_give_and_ask_for_the_date_where_we_replace_it() -> None:
    signing = ["self", "method", "resource", "params", "headers", "body", "compute_content_hash"]
    assert _parameters(AuthV1.sign_request) == signing
    assert _parameters(AuthV4.sign_request) == signing
    assert "self._getGMT()" in inspect.getsource(AuthV1.sign_request)
    assert _parameters(AuthV4._do_sign_request) == [*signing[:-1], "current_time", signing[-1]]
    assert _parameters(AuthV4.__init__) == ["self", "credentials_provider", "region"]


def test_the_signers_still_set_the_locale_which_is_why_ours_do_not_call_it() -> None:
    assert "locale.setlocale" in inspect.getsource(AuthV1._getGMT)


def test_credentials_are_an_id_a_secret_and_a_token() -> None:
    made = Credentials("a", "b", "c")
    assert (made.get_access_key_id(), made.get_access_key_secret(), made.get_security_token()) == (
        "a",
        "b",
        "c",
    )


def test_the_getters_of_its_exception_read_what_we_fill() -> None:
    made = LogException("Code", "text", "rid", 400, "", "body")
    assert (made.get_error_code(), made.get_error_message()) == ("Code", "text")
    assert {"_errorCode", "_errorMessage", "_requestId", "resp_status", "resp_header", "resp_body"} <= set(
        vars(made)
    )


def test_fallbacks_that_catch_its_exception_are_the_three_we_know() -> None:
    text = (ROOT / "logclient.py").read_text(encoding="utf-8")
    methods = [m for m in re.split(r"\n    def ", text) if "except LogException" in m]
    assert {m.split("(")[0] for m in methods} == {
        "_send",
        "get_previous_cursor_time",
        "create_logstore",
        "update_logstore",
    }
