"""What is read of the mirrored quota, which a tenant can write as well."""

import pytest

from drawbridge.agreement.mirrored_quota import group_by_class, is_mirrored, read_classes
from drawbridge.names import MANAGED_BY, MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION


def test_names_that_share_classes_through_a_third_one_are_one_group() -> None:
    classes = {"a": {"x"}, "b": {"z"}, "c": {"x", "y"}, "d": {"y"}, "e": frozenset[str]()}
    assert group_by_class(classes) == [{"a", "c", "d"}, {"b"}, {"e"}]


def test_as_many_names_and_classes_as_an_annotation_holds_are_grouped_at_once() -> None:
    chain = {f"{n}": {f"{n}", f"{n + 1}"} for n in range(10_000)}
    star = {f"{n}": {f"{m}" for m in range(150)} for n in range(150)}
    assert [len(each) for each in group_by_class(chain)] == [10_000]
    assert [len(each) for each in group_by_class(star)] == [150]


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', "{", "\ud800"])
def test_an_annotation_that_is_no_table_notes_nothing(text: str) -> None:
    assert read_classes({QUOTA_CLASSES_ANNOTATION: text}) == {}


def test_only_a_labelled_quota_of_this_name_is_the_mirrored_one() -> None:
    assert is_mirrored(MIRRORED_QUOTA, {**MANAGED_BY, "team": "a"})
    assert not is_mirrored(MIRRORED_QUOTA, None)
    assert not is_mirrored("other", MANAGED_BY)
