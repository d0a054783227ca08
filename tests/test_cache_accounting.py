"""Every cache of what a namespace can hold counts the memory of its objects for a writer.

The test constructs the caches of all processes. It also looks for calls in the source that make a
cache: a call that no construction reaches fails, so a new cache cannot be forgotten here. A cache
needs no accounting if a namespace admin cannot write its objects: those of a cluster-scoped
resource, and those in Drawbridge's own namespace. `drawbridge page` is left out: it runs on the
machine of the person who starts it, with that person's rights, and serves nobody else.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from allocator.api.watched_preemption import PreemptionCaches
from allocator.state.caches import AllocatorCaches
from certs.watched_secret import WatchedAuthorities
from controller.caches import ControllerCaches
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import ALL, DISRUPTION_BUDGETS, NODES
from drawbridge.config.model import Configuration
from drawbridge.process.settings import watch_in_use
from webhook.server.cluster_view import WatchedClusterView
from webhook.server.judge_view import WatchedJudgeView

ROOT: Final = Path(__file__).parents[1]
OWN_NAMESPACE: Final = "drawbridge-system"
# Tools of developers, and the command, whose one cache is that of `drawbridge page`.
NO_PROCESSES: Final = {"bench", "cli", "e2e", "tests", "tools"}
CACHE: Final = "Cache"


class Construction(NamedTuple):
    """A cache that was constructed, and the lines that led there: files with their lines."""

    arguments: dict[str, Any]
    lines: frozenset[tuple[str, int]]

    @property
    def is_counted(self) -> bool:
        """Whether somebody pays for the objects, or no tenant can write one."""
        is_own = self.arguments["namespace"] == OWN_NAMESPACE
        is_shared = self.arguments["resource"].namespaced and not is_own
        return not is_shared or self.arguments["accounting"] is not None


class Call(NamedTuple):
    """A call in the source whose result is a cache."""

    file: str
    first: int
    last: int

    def is_reached(self, constructions: Iterable[Construction]) -> bool:
        """Tell whether one of the constructions is in this call."""
        return any(
            file == self.file and self.first <= line <= self.last
            for construction in constructions
            for file, line in construction.lines
        )


def construct_allocator(session: Any) -> None:  # noqa: ANN401  # any session
    caches = AllocatorCaches(session, OWN_NAMESPACE, taint_rules="v1", groups=True)
    PreemptionCaches(session, caches.pods, caches.shares)


def construct_controller(session: Any) -> None:  # noqa: ANN401
    ControllerCaches(session, WatchedAuthorities(session))


def construct_webhook(session: Any) -> None:  # noqa: ANN401
    WatchedClusterView(session, Configuration())


def construct_judge(session: Any) -> None:  # noqa: ANN401
    WatchedJudgeView(session, Configuration)


PROCESSES: Final[tuple[Callable[[Any], None], ...]] = (
    construct_allocator,
    construct_controller,
    construct_webhook,
    construct_judge,
    watch_in_use,
)


def frame_lines() -> Iterator[tuple[str, int]]:
    """Yield where the callers of the caller are."""
    frame = sys._getframe(2)  # noqa: SLF001  # the caller of the constructor
    while frame.f_back is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


@pytest.fixture
def constructed(monkeypatch: pytest.MonkeyPatch) -> list[Construction]:
    """Note the caches that a test constructs."""
    noted: list[Construction] = []
    original = Cache.__init__

    def construct(*arguments: Any, **named: Any) -> None:  # noqa: ANN401  # of the cache
        bound = inspect.signature(original).bind(*arguments, **named)
        bound.apply_defaults()
        noted.append(Construction(bound.arguments, frozenset(frame_lines())))
        original(*arguments, **named)

    monkeypatch.setattr(Cache, "__init__", construct)
    return noted


def session() -> Any:  # noqa: ANN401  # what a session has before it is used
    clock = SimpleNamespace(now=lambda: 0.0, is_certain=lambda: True)
    return SimpleNamespace(namespace=OWN_NAMESPACE, clock=clock)


def read_sources() -> dict[str, ast.Module]:
    """Return the modules of all processes, parsed."""
    packages = (each.parent for each in ROOT.glob("*/__init__.py"))
    files = [
        file
        for package in packages
        if package.name not in NO_PROCESSES
        for file in package.rglob("*.py")
    ]
    return {str(file): ast.parse(file.read_bytes()) for file in files}


def mentions_cache(annotation: ast.expr | None) -> bool:
    """Tell whether a type is, or contains, a cache."""
    text = ast.unparse(annotation) if annotation is not None else ""
    return re.search(rf"\b{CACHE}\[", text) is not None


def makes_cache(node: ast.AST) -> bool:
    """Tell whether a function returns a cache that it was not given."""
    if not isinstance(node, ast.FunctionDef) or not mentions_cache(node.returns):
        return False
    arguments = node.args.args + node.args.kwonlyargs
    is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
    return not is_property and not any(mentions_cache(each.annotation) for each in arguments)


def called_name(call: ast.Call) -> str:
    """Return the name of what is called, without its module and its parameters."""
    called = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def find_calls(sources: dict[str, ast.Module]) -> list[Call]:
    """Return all calls whose result is a cache. Private names are those of their modules."""
    nodes = [(file, node) for file, tree in sources.items() for node in ast.walk(tree)]
    makers = {("", CACHE)} | {
        (file if node.name.startswith("_") else "", node.name)
        for file, node in nodes
        if isinstance(node, ast.FunctionDef) and makes_cache(node)
    }
    return [
        Call(file, node.lineno, node.end_lineno or node.lineno)
        for file, node in nodes
        if isinstance(node, ast.Call)
        and {("", called_name(node)), (file, called_name(node))} & makers
    ]


def test_every_cache_of_a_process_is_constructed_here(constructed: list[Construction]) -> None:
    for construct in PROCESSES:
        construct(session())
    calls = find_calls(read_sources())
    unreached = [f"{each.file}:{each.first}" for each in calls if not each.is_reached(constructed)]
    assert not unreached, "PROCESSES of this test do not construct these caches"
    assert len(calls) > len(PROCESSES)


def test_the_objects_of_namespaces_count_for_somebody(constructed: list[Construction]) -> None:
    for construct in PROCESSES:
        construct(session())
    uncounted = [each.arguments["resource"].plural for each in constructed if not each.is_counted]
    assert not uncounted, "tenants write these without end: give their caches an Accounting"
    assert len(constructed) > 30


def test_no_process_waits_for_a_resource_of_another_product() -> None:
    """Its CRD can name a conversion webhook that is away, and the process would never be ready."""
    caches = (
        AllocatorCaches(session(), OWN_NAMESPACE, taint_rules="v1", groups=True),
        ControllerCaches(session(), WatchedAuthorities(session())),
        WatchedClusterView(session(), Configuration()).caches,
        WatchedJudgeView(session(), Configuration).caches,
    )
    required = {
        (each.resource.group, each.resource.plural) for one in caches for each in one.required
    }
    assert required <= {(each.group, each.plural) for each in ALL}


def test_a_cache_without_accounting_is_found(constructed: list[Construction]) -> None:
    Cache(session(), DISRUPTION_BUDGETS, dict)
    Cache(session(), DISRUPTION_BUDGETS, dict, namespace=OWN_NAMESPACE)
    Cache(session(), NODES, dict)
    assert [each.is_counted for each in constructed] == [False, True, True]


@pytest.mark.parametrize(
    "source",
    [
        "cache = Cache(session, PODS, Pod)",
        "cache = cluster.Cache[Pod](\n    session,\n    PODS,\n    Pod,\n)",
        "def watch(session) -> Cache[Pod]: ...\nclass Caches:\n    a = watch(session)",
        "def watch(session) -> tuple[Cache[Pod], int]: ...\nself.a, _ = places.watch(session)",
    ],
)
def test_a_call_that_makes_a_cache_is_found(source: str, constructed: list[Construction]) -> None:
    (call,) = find_calls({"new.py": ast.parse(source)})
    Cache(session(), NODES, dict)
    assert not call.is_reached(constructed)
    here = Construction({}, frozenset({("new.py", call.last)}))
    assert call.is_reached([here])


@pytest.mark.parametrize(
    "source",
    [
        "def add(cache: Cache[Pod]) -> Cache[Pod]: ...\nadd(mine)",
        "def read() -> ObjectCache[Pod]: ...\nread()",
        "class Caches:\n    @property\n    def pods(self) -> Cache[Pod]: ...\npods()",
    ],
)
def test_a_call_that_returns_an_existing_cache_is_not_counted(source: str) -> None:
    assert find_calls({"new.py": ast.parse(source)}) == []
