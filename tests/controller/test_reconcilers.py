"""What the reconcilers of a term hear of."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from certs.reconciler import CertificateReconciler
from certs.rotation import RotationPolicy
from controller.caches import ControllerCaches
from controller.certificates import make_certificate_parts
from controller.dual_nodes import DualNodeReconciler
from controller.giving_back import GivingBack
from controller.observations import Observations
from controller.quota_mirror import QuotaMirrorReconciler
from controller.reconcilers import ControllerContext, Reconcilers
from controller.template_gc import TemplateGarbageCollector
from drawbridge.agreement.required_versions import RequiredVersions
from drawbridge.cluster.cache import Cache
from drawbridge.config.model import Configuration
from drawbridge.process.settings import Settings, watch_in_use
from tests.cluster.fake.session import ServerSession
from tests.controller.harness import FakeReporter
from tests.tables import every_row

_NOBODY: Any = SimpleNamespace()


def test_nodes_leave_anew_after_a_list_of_the_nodes_and_in_a_new_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node can have been ours in between. What a term has subscribed to ends with it."""
    session, settings, fence = ServerSession(_NOBODY), Settings(), _NOBODY
    caches = ControllerCaches(session)
    observations = Observations(caches, session.clock.now)
    context = ControllerContext(session, settings, None)
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


def test_a_term_wakes_what_has_to_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session, settings = ServerSession(_NOBODY), Settings()
    caches = ControllerCaches(session)
    context = ControllerContext(session, settings, None)
    observations = Observations(caches, session.clock.now)
    told: list[Any] = []
    monkeypatch.setattr(QuotaMirrorReconciler, "look_at_all", lambda *quota: told.extend(quota))
    reconcilers = Reconcilers(context, caches, observations, _NOBODY, FakeReporter())
    settings._use("a", Configuration())  # noqa: SLF001  # as a watch does
    assert told == [reconcilers.quota]
    (dual,) = (each for each in reconcilers.all() if isinstance(each, DualNodeReconciler))
    assert not reconcilers.wake_ups["dual"].is_set()
    dual.listener()
    assert reconcilers.wake_ups["dual"].is_set()


# What runs again after a change of an object of each cache, or of what is no cache.
WAKES = {
    "slices": {"facts", "rules"},
    "classes": {"facts"},
    "nodes": {"facts", "dual", "owned", "rules"},
    "pods": {"templates"},
    "templates": {"templates"},
    "quotas": {"quota"},
    "namespaces": {"quota", "templates"},
    "webhooks": {"templates", "quota", "conditions", "others", "certificates"},
    "validating": {"conditions", "others", "certificates"},
    "claims": set[str](),
    "device_pods": set[str](),
    "the CA": {"certificates", "allocator-certificate"},
    "the offered configuration": {"configuration"},
    "the configuration": {
        *("facts", "conditions", "quota", "owned", "rules"),
        "allocator-certificate",
    },
    "the probe": {"facts"},
    "the scheduler": {"facts"},
    "the rules": {"owned"},
    "the facts": {"templates", "dual", "quota"},
}


def change(reconcilers: Reconcilers, caches: ControllerCaches, name: str) -> None:
    """Tell the listeners of a cache or a reconciler of a change."""
    match name:
        case "the probe" | "the scheduler" | "the rules":
            getattr(reconcilers, name.removeprefix("the ")).listener()
        case "the facts":
            for listener in reconcilers.facts.listeners:
                listener()
        case _:
            for listener in getattr(caches, name)._index._listeners:  # noqa: SLF001
                listener(None, None)


def test_each_change_wakes_the_reconcilers_that_depend_on_it() -> None:
    session = ServerSession(_NOBODY)
    settings = Settings([watch_in_use(session)])
    parts = make_certificate_parts(RotationPolicy(), session, _NOBODY)
    assert parts is not None
    caches = ControllerCaches(session, parts.secret)
    context = ControllerContext(session, settings, parts)
    observations = Observations(caches, session.clock.now)
    reconcilers = Reconcilers(context, caches, observations, _NOBODY, FakeReporter())
    others: dict[str, Callable[[], None]] = {  # as watches do
        "the CA": lambda: parts.secret._change(None, None),  # noqa: SLF001
        "the offered configuration": lambda: settings.watched[0]._on_change(None, None),  # noqa: SLF001
        "the configuration": lambda: settings._use("a", Configuration()),  # noqa: SLF001
    }
    woken: dict[str, set[str]] = {}
    for name in WAKES:
        for event in reconcilers.wake_ups.values():
            event.clear()
        others.get(name, partial(change, reconcilers, caches, name))()
        woken[name] = {key for key, event in reconcilers.wake_ups.items() if event.is_set()}
    assert woken == WAKES
    reconcilers.end()


def test_allocators_must_know_the_nodes_and_the_configuration_by_which_nodes_leave() -> None:
    session = ServerSession(_NOBODY)
    settings = Settings([watch_in_use(session)])
    caches = ControllerCaches(session)
    context = ControllerContext(session, settings, None)
    observations = Observations(caches, session.clock.now)
    reconcilers = Reconcilers(context, caches, observations, _NOBODY, FakeReporter())
    caches.nodes._index.changed = "7"  # noqa: SLF001  # as a watch does
    settings.watched[0].cache._index.changed = "8"  # noqa: SLF001
    versions = reconcilers.owned._giving_back._versions()  # noqa: SLF001  # what it announces
    assert versions == RequiredVersions(nodes="7", configuration="8")


def test_the_age_of_a_template_is_by_the_clock_of_the_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its creation is, so that a clock of this machine would delete it before its pod is there."""
    session = ServerSession(_NOBODY)
    monkeypatch.setattr(session.clock, "now", lambda: 86_400.0)
    caches = ControllerCaches(session)
    context = ControllerContext(session, Settings(), None)
    observations = Observations(caches, session.clock.now)
    reconcilers = Reconcilers(context, caches, observations, _NOBODY, FakeReporter())
    (collector,) = (e for e in reconcilers.all() if isinstance(e, TemplateGarbageCollector))
    assert collector._now() == reconcilers.templates._now() == datetime(1970, 1, 2, tzinfo=UTC)  # noqa: SLF001


@every_row("behind", ["nothing", "claims", "device_pods"])
def test_nothing_is_told_to_be_stuck_while_claims_or_their_pods_are_behind(
    behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache was synced once, and its watch can fail later."""
    session = ServerSession(_NOBODY)
    caches = ControllerCaches(session)
    late = getattr(caches, behind, None)
    monkeypatch.setattr(Cache, "synced", property(lambda _: True))
    monkeypatch.setattr(Cache, "fresh", property(lambda self: self is not late))
    context = ControllerContext(session, Settings(), None)
    observations = Observations(caches, session.clock.now)
    reconcilers = Reconcilers(context, caches, observations, _NOBODY, FakeReporter())
    assert reconcilers.stuck._is_fresh() is (behind == "nothing")  # noqa: SLF001


def test_nothing_of_a_term_stays_after_it() -> None:
    """But for what the first one left out of the collections: terms can be many."""
    asyncio.run(_end_terms())


async def _end_terms() -> None:
    session = ServerSession(_NOBODY)
    parts = make_certificate_parts(RotationPolicy(), session, _NOBODY)
    assert parts is not None
    caches = ControllerCaches(session, parts.secret)
    context = ControllerContext(session, Settings(), parts)
    observations = Observations(caches, session.clock.now)
    hook, terms = sys.unraisablehook, []
    try:
        for _ in range(3):
            reconcilers = Reconcilers(context, caches, observations, _NOBODY, FakeReporter())
            terms.append(weakref.ref(reconcilers.facts))
            for reconciler in reconcilers.all():
                if isinstance(reconciler, CertificateReconciler):
                    reconciler._outside.wake_in(86_400.0)  # noqa: SLF001  # as for a CA that is new
            with reconcilers.facts._pause_collection():  # noqa: SLF001  # as the first run does
                pass
            reconcilers.end()
            del reconcilers, reconciler
        gc.collect()
        assert [term() for term in terms[1:]] == [None, None]
        assert sys.unraisablehook == hook, "a term has set a handler"
    finally:
        gc.unfreeze()
