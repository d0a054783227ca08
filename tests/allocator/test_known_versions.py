"""What an allocator has to know before it writes."""

from dataclasses import dataclass

import pytest

from allocator.scheduler.known_versions import KnownVersions
from drawbridge.agreement.required_versions import RequiredVersions, read_required
from drawbridge.names import REQUIRED_VERSIONS_ANNOTATION


@dataclass
class FakeCache:
    """A cache that a test moves."""

    version: str
    lists_begun: int = 1
    listed: int = 1
    asked: int = 0

    def read_again(self) -> None:
        """Count how often it was asked to list."""
        self.asked += 1


def test_a_cache_is_behind_until_its_watch_tells_of_the_version() -> None:
    nodes, configuration = FakeCache("90"), FakeCache("95")
    versions = KnownVersions({"nodes": nodes, "configuration": configuration})
    assert not versions.find_behind()
    versions.require(RequiredVersions("100", "95"))
    assert versions.find_behind() == "nodes"
    nodes.version = "100"
    assert not versions.find_behind()
    versions.require(RequiredVersions("100", "101"))
    assert versions.find_behind() == "configuration"


def test_a_watch_that_stays_behind_is_replaced_by_a_list() -> None:
    nodes = FakeCache("90")
    versions = KnownVersions({"nodes": nodes})
    for asked in (0, 0, 1):
        versions.require(RequiredVersions("100"))
        assert nodes.asked == asked


def test_a_watch_that_stays_behind_is_replaced_whatever_is_required_meanwhile() -> None:
    nodes = FakeCache("90")
    versions = KnownVersions({"nodes": nodes})
    for version in range(100, 106):
        versions.require(RequiredVersions(f"{version}"))
    assert nodes.asked == 2
    nodes.version = "105"
    for version in (105, 106, 106):
        versions.require(RequiredVersions(f"{version}"))
    assert nodes.asked == 2, "it was not behind in between"


def test_a_list_that_takes_long_is_not_begun_again() -> None:
    nodes = FakeCache("90")
    versions = KnownVersions({"nodes": nodes})
    for _ in range(3):
        versions.require(RequiredVersions("100"))
    nodes.lists_begun += 1
    for _ in range(10):
        versions.require(RequiredVersions("100"))
    assert (nodes.asked, versions.find_behind()) == (1, "nodes")


def test_a_list_that_began_later_suffices_also_in_another_history() -> None:
    nodes = FakeCache("90", lists_begun=2)
    versions = KnownVersions({"nodes": nodes})
    versions.require(RequiredVersions("100"))
    nodes.listed = 2  # it began before the Lease was read
    assert versions.find_behind() == "nodes"
    nodes.lists_begun = nodes.listed = 3
    assert not versions.find_behind()
    versions.require(RequiredVersions("100"))
    assert not versions.find_behind()


def test_what_is_optional_stops_nothing_while_it_is_behind() -> None:
    """It can be so for ever: its role lacks the right to read it, from the start or later."""
    nodes, policy = FakeCache("", listed=0), FakeCache("", listed=0)
    versions = KnownVersions({"nodes": nodes, "policy": policy}, optional=("policy",))
    versions.require(RequiredVersions("100", policy="100"))
    assert (versions.find_behind(), versions.is_behind("policy")) == ("nodes", True)
    nodes.version, policy.version, policy.listed = "100", "90", 1
    assert (versions.find_behind(), versions.is_behind("policy")) == ("", True)
    policy.version = "100"
    assert not versions.is_behind("policy")


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ('{"nodes": "12", "configuration": "3"}', RequiredVersions("12", "3")),
        ('{"nodes": "12", "later": "3"}', RequiredVersions("12")),
        ('{"policy": "12"}', RequiredVersions(policy="12")),
        ('{"nodes": 12}', RequiredVersions()),
        ("12", RequiredVersions()),
        ("", RequiredVersions()),
    ],
)
def test_an_annotation_that_cannot_be_read_requires_nothing(
    text: str, required: RequiredVersions
) -> None:
    assert read_required({REQUIRED_VERSIONS_ANNOTATION: text}) == required
    assert read_required(None) == RequiredVersions()
