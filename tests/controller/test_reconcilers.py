"""What the reconcilers of a term hear of."""

from types import SimpleNamespace
from typing import Any

import pytest

from controller.caches import ControllerCaches
from controller.giving_back import GivingBack
from controller.observations import Observations
from controller.reconcilers import ControllerContext, Reconcilers
from drawbridge.agreement.required_versions import RequiredVersions
from drawbridge.config.model import Configuration
from drawbridge.process.settings import Settings, watch_in_use
from tests.cluster.fake.session import ServerSession
from tests.controller.harness import FakeReporter

_NOBODY: Any = SimpleNamespace()


def test_nodes_leave_anew_after_a_list_of_the_nodes_and_in_a_new_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node can have been ours in between. What a term has subscribed to ends with it."""
    session, settings, fence = ServerSession(_NOBODY), Settings(), _NOBODY
    caches = ControllerCaches(session)
    observations = Observations(caches, session.clock.now)
    context = ControllerContext(session, "own", settings, None)
    restarted: list[Any] = []
    monkeypatch.setattr(GivingBack, "restart", lambda *keys: restarted.append(keys[1:]))
    reconcilers = Reconcilers(context, caches, observations, fence, FakeReporter())
    index = caches.nodes._index  # noqa: SLF001  # what a list changes
    index.note_list("7", ())
    assert restarted == [()]
    settings._use("a", Configuration())  # noqa: SLF001  # as a watch does
    assert restarted == [(), ()]
    reconcilers.end()
    index.note_list("8", ())
    settings._use("b", Configuration())  # noqa: SLF001
    assert restarted == [(), ()]


def test_allocators_must_know_the_nodes_and_the_configuration_by_which_nodes_leave() -> None:
    session = ServerSession(_NOBODY)
    settings = Settings([watch_in_use(session)])
    caches = ControllerCaches(session)
    context = ControllerContext(session, "own", settings, None)
    observations = Observations(caches, session.clock.now)
    reconcilers = Reconcilers(context, caches, observations, _NOBODY, FakeReporter())
    caches.nodes._index.changed = "7"  # noqa: SLF001  # as a watch does
    settings.watched[0].cache._index.changed = "8"  # noqa: SLF001
    versions = reconcilers.owned._giving_back._versions()  # noqa: SLF001  # what it announces
    assert versions == RequiredVersions(nodes="7", configuration="8")
