"""What the service says no with: HTTP status, error code, message.

Codes and statuses are the vendor's, as its documentation and its SDKs spell them. The messages
are ours; they name the thing and never repeat a body, a key or a token.
"""


class Refused(Exception):
    """The answer `{"errorCode": code, "errorMessage": message}` with `status`."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


def parameter_invalid(message: str) -> Refused:
    """400 ParameterInvalid."""
    return Refused(400, "ParameterInvalid", message)


def no_project(name: str) -> Refused:
    """404 ProjectNotExist."""
    return Refused(404, "ProjectNotExist", f"The Project does not exist : {name}")


def no_logstore(name: str) -> Refused:
    """404 LogStoreNotExist."""
    return Refused(404, "LogStoreNotExist", f"logstore {name} does not exist")


def no_shard(shard: int, *, status: int = 400) -> Refused:
    """ShardNotExist: 400 on the data calls, 404 on checkpoints."""
    return Refused(status, "ShardNotExist", f"shard {shard} does not exist")


def no_group(name: str) -> Refused:
    """404 ConsumerGroupNotExist."""
    return Refused(404, "ConsumerGroupNotExist", f"consumer group {name} does not exist")


def invalid_cursor() -> Refused:
    """400 InvalidCursor: expired, or not of this shard."""
    return Refused(400, "InvalidCursor", "this cursor is invalid")
