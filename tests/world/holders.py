"""Which claims have devices."""

from collections.abc import Iterable

from tests.cluster.fake.kinds import JSON
from tests.world.nodes import devices_of, protection_of


class Holders(dict[tuple[str, str], JSON]):
    """The claims that have devices, as they are stored, in the order of their allocations."""

    def follow(self, before: JSON, after: JSON) -> bool:
        """Follow a change; return whether a claim has other devices, or lost its protection."""
        is_other = protection_of(before) != protection_of(after)
        key = _key_of(after or before)
        if is_other:
            self.pop(key, None)
        if devices_of(after):
            self[key] = after
        return is_other

    def begin(self, claims: Iterable[JSON]) -> None:
        """Begin anew with all claims."""
        self.clear()
        self.update({_key_of(claim): claim for claim in filter(devices_of, claims)})


def _key_of(claim: JSON) -> tuple[str, str]:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]
