"""Edits of metadata in protobuf, on an object that a real API server (1.36.3) returned."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from drawbridge.cluster.protobuf_metadata import MetadataEdit, edit_metadata, resource_version
from tests.cluster.stored_claim import STORED

PARAMETERS = b'{"apiVersion": "a/v1",  "kind": "K", "z": 1}'
MARK, FINALIZER = "drawbridge.dev/allocation", "resource.kubernetes.io/delete-protection"


FIELD = descriptor_pb2.FieldDescriptorProto
MANY, ONE = FIELD.LABEL_REPEATED, FIELD.LABEL_OPTIONAL
# The fields of the messages that the tests read: name, number, type, label.
MESSAGES = {
    "Unknown": [("raw", 2, FIELD.TYPE_BYTES, ONE, "")],
    "Object": [("metadata", 1, FIELD.TYPE_MESSAGE, ONE, ".m.Meta")],
    "Meta": [
        ("name", 1, FIELD.TYPE_STRING, ONE, ""),
        ("annotations", 12, FIELD.TYPE_MESSAGE, MANY, ".m.Entry"),
        ("finalizers", 14, FIELD.TYPE_STRING, MANY, ""),
    ],
    "Entry": [("key", 1, FIELD.TYPE_STRING, ONE, ""), ("value", 2, FIELD.TYPE_STRING, ONE, "")],
}


def _message_types() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="m", syntax="proto3")
    for name, fields in MESSAGES.items():
        made = file.message_type.add(name=name)
        for field, number, kind, label, type_name in fields:
            made.field.add(name=field, number=number, type=kind, label=label)
            if type_name:
                made.field[-1].type_name = type_name
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"m.{name}"))
        for name in MESSAGES
    }


def _decoded(message: bytes) -> tuple[list[str], dict[str, str], str]:
    """Decode finalizers, annotations and name with the protobuf library."""
    types = _message_types()
    envelope = types["Unknown"].FromString(message[4:])
    metadata = types["Object"].FromString(envelope.raw).metadata
    annotations = {each.key: each.value for each in metadata.annotations}
    return list(metadata.finalizers), annotations, metadata.name


def test_an_edit_adds_what_it_names_and_keeps_the_parameters_byte_for_byte() -> None:
    edited = edit_metadata(
        STORED,
        MetadataEdit(added_finalizers=(FINALIZER,), annotations={MARK: "{}", "ä": "x" * 300}),
    )
    assert _decoded(edited) == ([FINALIZER], {MARK: "{}", "ä": "x" * 300}, "c")
    assert PARAMETERS in edited
    assert resource_version(edited) == resource_version(STORED) == "218"


def test_an_edit_replaces_and_removes_only_what_it_names() -> None:
    first = MetadataEdit(added_finalizers=("a", FINALIZER), annotations={MARK: "1", "kept": "k"})
    edited = edit_metadata(STORED, first)
    again = edit_metadata(edited, MetadataEdit(("a", "b"), (FINALIZER,), {MARK: "2"}))
    assert _decoded(again) == (["a", "b"], {"kept": "k", MARK: "2"}, "c")
    removed = edit_metadata(again, MetadataEdit(annotations={MARK: None}))
    assert _decoded(removed) == (["a", "b"], {"kept": "k"}, "c")


def test_removing_what_was_added_returns_the_same_bytes() -> None:
    added = edit_metadata(STORED, MetadataEdit((FINALIZER,), (), {MARK: "{}"}))
    assert edit_metadata(added, MetadataEdit((), (FINALIZER,), {MARK: None})) == STORED


def test_an_incomplete_object_is_an_error_and_never_a_wrong_object() -> None:
    """Trailing empty fields may be missing, because an object without them is complete."""
    complete = {len(STORED), len(STORED) - 2, len(STORED) - 4}
    for length in range(len(STORED)):
        try:
            edited = edit_metadata(STORED[:length], MetadataEdit())
        except ValueError:
            assert length not in complete
        else:
            assert length in complete
            assert _decoded(edited)[2] == "c"


@pytest.mark.parametrize(
    "message",
    [
        b"{}",
        b"k8s\x00",
        b"k8s\x00\x13",  # a group, which the API does not use
        b"k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ],
)
def test_other_bytes_are_an_error(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"message|protobuf"):
        edit_metadata(message, MetadataEdit())
