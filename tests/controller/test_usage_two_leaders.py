"""Books of usage while two replicas lead, as after a restore of etcd that takes a Lease back."""

import pytest

from drawbridge.api_error import ApiError
from drawbridge.usage.book import DAY
from drawbridge.usage.stored_books import name_of_day
from tests.controller.test_usage import NOW, Cluster, Controller

MIDNIGHT = (NOW // DAY + 1) * DAY


@pytest.mark.parametrize("is_first", [True, False])
def test_a_book_that_another_leader_has_written_meanwhile_is_continued(
    is_first: bool,  # noqa: FBT001  # a case
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    leader, other = Controller(cluster), Controller(cluster)
    if not is_first:  # there is a book of the day before
        cluster.time = MIDNIGHT - 100
        leader.write()
    cluster.time = began = MIDNIGHT + 3
    leader.write()
    cluster.claim("a", "gpu-0")
    cluster.time += 60
    other.check()
    cluster.time += 60
    stored, name = cluster.config_maps, name_of_day(MIDNIGHT // DAY)
    read = stored.read
    stored.requests.clear()

    async def let_leader_write(asked: str, namespace: str) -> object:
        if asked == name and ("read", name) in stored.requests:  # behind the latest book
            monkeypatch.undo()
            cluster.time += 60
            await leader.books.reconcile()
        return await read(asked, namespace)

    monkeypatch.setattr(stored, "read", let_leader_write)
    with pytest.raises(ApiError, match="another replica has written"):
        other.write()
    written = cluster.books()[-1]
    assert (written.start, written.through) == (began if is_first else MIDNIGHT, cluster.time - 3)
    cluster.time += 60
    other.write()
    (used,) = cluster.used().values()
    assert (used.devices, used.unknown) == (cluster.time - 3 - began, 0)
    assert cluster.books()[-1].gaps == ()
