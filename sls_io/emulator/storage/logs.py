"""Whether a put body is a LogGroup, and between which times its logs lie.

Key and value are declared as bytes: real stores hold text that is not UTF-8, and the emulator
keeps LogGroups as they came. The descriptor is built here, so that no generated code is needed.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from sls_io.emulator.storage.refusal import Refused

_PACKAGE = "sls_emulator"
_Field = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {
    "Content": ((1, "Key", "required", "bytes"), (2, "Value", "required", "bytes")),
    "Log": (
        (1, "Time", "required", "uint32"),
        (2, "Contents", "repeated", "Content"),
        (4, "TimeNs", "optional", "fixed32"),
    ),
    "LogTag": ((1, "Key", "required", "bytes"), (2, "Value", "required", "bytes")),
    "LogGroup": (
        (1, "Logs", "repeated", "Log"),
        (2, "Reserved", "optional", "bytes"),
        (3, "Topic", "optional", "bytes"),
        (4, "Source", "optional", "bytes"),
        (5, "MachineUUID", "optional", "bytes"),
        (6, "LogTags", "repeated", "LogTag"),
    ),
}  # fmt: skip
_LABELS = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_TYPES = {"bytes": _Field.TYPE_BYTES, "uint32": _Field.TYPE_UINT32, "fixed32": _Field.TYPE_FIXED32}


def _log_group_class() -> type[message.Message]:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    for name, columns in _MESSAGES.items():
        kind = file.message_type.add(name=name)
        for number, field_name, label, type_name in columns:
            added = kind.field.add(name=field_name, number=number, label=_LABELS[label])
            if type_name in _TYPES:
                added.type = _TYPES[type_name]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.LogGroup"))


_LogGroup = _log_group_class()


def check_group(raw: bytes, *, times_within: tuple[float, float] | None = None) -> None:
    """PostBodyInvalid (400) unless `raw` is a LogGroup, with every log's time inside `times_within`."""
    group = _LogGroup()
    try:
        group.ParseFromString(raw)
        whole = group.IsInitialized()
    except message.DecodeError:
        whole = False
    if not whole:
        raise Refused(400, "PostBodyInvalid", "the body is not a LogGroup")
    if times_within is not None:
        begin, end = times_within
        for log in group.Logs:  # type: ignore[attr-defined]
            if not begin <= log.Time <= end:
                raise Refused(
                    400, "PostBodyInvalid", f"log time {log.Time} is outside [-7 days, +15 minutes]"
                )


def log_times(raw: bytes) -> list[int]:
    """The time of each log, seconds; none where `raw` is no LogGroup."""
    group = _LogGroup()
    try:
        group.ParseFromString(raw)
    except message.DecodeError:
        return []
    return [log.Time for log in group.Logs]  # type: ignore[attr-defined]
