"""The record of the types of the DRA API is what our structs read; new fields are named."""

import importlib
from pathlib import Path

import msgspec
import pytest

from e2e.upstream.api_fields import (
    Recorded,
    find_new,
    newest_of,
    rank,
    read_module,
    read_recorded,
    read_types,
)

ROOT = Path(__file__).parents[2]
RECORDED = read_recorded()
TYPES = [
    pytest.param(entry, id=f"{group}-{name}")
    for group, types in RECORDED.items()
    for name, entry in types.items()
]
OLD = """
type Device struct {
	// Name, as in `json:"old"`.
	Name string `json:"name" protobuf:"bytes,1,name=name"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

type DeviceList struct {
	Items []Device `json:"items"`
}
"""
NEW = OLD.replace(
    "type DeviceList", 'type Extra struct {\n\tA int `json:"a"`\n}\n\ntype DeviceList'
)
NEW = NEW.replace("\tmetav1", '\tHealth *string `json:"health,omitempty"`\n\tmetav1')


@pytest.mark.parametrize("entry", TYPES)
def test_the_struct_of_a_type_has_each_field_that_is_not_unread(entry: Recorded) -> None:
    read = set(entry.fields) - set(entry.unread)
    assert set(entry.unread) <= set(entry.fields)
    if entry.model:
        module, name = entry.model.split(":")
        struct = getattr(importlib.import_module(module), name)
        ours = {each.encode_name for each in msgspec.structs.fields(struct)}
        assert read <= ours
        assert not ours & set(entry.unread)
    elif entry.reader:
        text = (ROOT / entry.reader).read_text("utf-8").lower()
        assert [each for each in read if each.lower() not in text] == []
    else:
        assert entry.unread == []


def test_new_fields_and_new_types_are_named_with_what_reads_the_type() -> None:
    recorded = {"resource": {"Device": Recorded(["name"], "drawbridge.dra.device:Device")}}
    assert list(find_new({"resource": read_types(OLD)}, recorded)) == []
    assert list(find_new({"resource": read_types(NEW)}, recorded)) == [
        "resource Device.health: new; drawbridge.dra.device:Device reads Device",
        "resource Extra.a: new; nothing of ours reads Extra",
    ]


def test_a_type_counts_as_the_newest_version_has_it_whatever_its_stage() -> None:
    names = ["v1alpha3", "v1", "v1beta2", "v2alpha1", "v1beta10"]
    assert sorted(names, key=rank) == ["v1alpha3", "v2alpha1", "v1beta2", "v1beta10", "v1"]
    sources = {
        "resource/v1": NEW,
        "resource/v1beta1": OLD,
        "scheduling/v1alpha1": "",
        "core/v1": "",
    }
    assert read_module(sources)["resource"]["Device"] == ["health", "name"]


def test_the_newest_release_is_taken_also_if_it_is_an_alpha() -> None:
    versions = ["v0.9.1", "v0.37.2", "v0.38.0-alpha.2", "v0.38.0-alpha.10", "v0.38.0-rc.0"]
    assert newest_of(versions) == "v0.38.0-rc.0"
    assert newest_of(versions[:-1]) == "v0.38.0-alpha.10"
    assert newest_of([*versions, "v0.38.0"]) == "v0.38.0"
