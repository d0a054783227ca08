"""Makes protobuf message classes from a table instead of generated code.

The protocols of a node have few messages, and a generator would be one more tool.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# It ships no type information.
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL, "int64": _Field.TYPE_INT64}


def message_classes(package: str, messages: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a class for each message.

    A message lists its fields in the order of their numbers, an empty text for a number that is not
    used. `name` is text, `name:bool` and `name:int64` are these, `name:Message` is another message;
    `*` before the name stands for repeated, `?` for optional, `{}` for a map from text.
    """
    name = f"{package}.proto"
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for number, text in enumerate(fields, 1):
            if text:
                _add_field(described, package, number, text)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{message}"))
        for message in messages
    }


def _add_field(
    message: descriptor_pb2.DescriptorProto, package: str, number: int, text: str
) -> None:
    name, _, kind = text.lstrip("*?{}").partition(":")
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    field.type = _SCALARS.get(kind, _Field.TYPE_MESSAGE)
    if kind not in _SCALARS:
        field.type_name = f".{package}.{kind}"
    if text.startswith(("*", "{}")):
        field.label = _Field.LABEL_REPEATED
    if text.startswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if text.startswith("{}"):
        camel = "".join(part.title() for part in name.split("_"))
        entry = message.nested_type.add(name=f"{camel}Entry")
        entry.options.map_entry = True
        _add_field(entry, package, 1, "key")
        _add_field(entry, package, 2, f"value:{kind}" if kind else "value")
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry.name}"
