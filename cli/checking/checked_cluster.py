"""The cluster that `drawbridge check` judges objects against: files, a live cluster, and the input.

The objects of the input count as if they were applied together. Without files or a live cluster,
nothing is known about other objects, so none is reported as missing.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from cli.checking.unowned_classes import find_unowned_classes
from cli.input.cluster_objects import ClusterObjects
from cli.input.facts_objects import facts_input
from cli.input.namespace_labels import labels_of_namespaces
from cli.simulation.pod_allocators import find_pod_allocators
from cli.translation.input import with_namespaces
from drawbridge.agreement.device_fence import without_fence
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.config.policy import compatibility_declarations, device_quotas
from drawbridge.documents.paths import get_value
from drawbridge.dra.claim import CLAIM, TEMPLATE, Claim, Template
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.gates import Gates
from drawbridge.dra.resource_quotas import ResourceQuota, quota_reader
from drawbridge.facts.families import known_families
from drawbridge.facts.gather import FactsInput, GatheredFacts, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.judge.context import JudgeContext, ObjectLookups, build_context
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner, PlannerObject
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.quota_use import QuotaUse, published_capacity
from drawbridge.solver.deviations import Allocator
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.definitions import Definitions, find_definitions
from drawbridge.translate.legacy.networks import add_networks

_DEFAULT = "default"


class UsedPools(NamedTuple):
    """The pools that the allocator of a pod uses, and which those are; all without a text."""

    context: JudgeContext
    which: str = ""


@dataclass(frozen=True)
class CheckedCluster:
    """The objects of the cluster and of the input, and what is derived from them."""

    input: ClusterObjects
    cluster: ClusterObjects
    is_read: bool
    gates: Gates
    configuration: Configuration
    allocator: Allocator
    claims_read: bool = True
    published: Facts | None = None

    def gather_facts(self) -> GatheredFacts | None:
        """Return the facts that decide translations; None if no cluster is known."""
        if self.published is not None:
            return GatheredFacts(self.published)
        if not self.is_read:
            return None
        return gather_facts(self._facts_input(), self.configuration, self.gates)

    def translation_context(self, facts: Facts | None) -> TranslationContext:
        """Return the context of translations by facts, if there are any."""
        networks = self._facts_input().networks
        context = make_context(add_networks(self.configuration, networks), facts)
        return with_namespaces(context, _namespace_labels((self.cluster, self.input)))

    def find_definitions(self) -> Definitions:
        """Return the CustomResourceDefinitions; those of the input replace those of the cluster."""
        cluster, written = (
            find_definitions((each.source.name, each.value) for each in files.others)
            for files in (self.cluster, self.input)
        )
        return {**cluster, **written}

    def _facts_input(self) -> FactsInput:
        return facts_input(self._objects())

    def _objects(self) -> ClusterObjects:
        return ClusterObjects(
            slices=(*self.cluster.slices, *self.input.slices),
            classes=(*self.cluster.classes, *self.input.classes),
            nodes=(*self.cluster.nodes, *self.input.nodes),
            others=(*self.cluster.others, *self.input.others),
        )

    def contexts_of_pods(
        self, context: JudgeContext, generated: Sequence[Template], facts: Facts | None
    ) -> Callable[[Pod], UsedPools]:
        """Return the pools for each pod: those of the own scheduler have only the owned pools.

        Other pods have only those without a fence. `context` is that of all other objects.
        """
        all_pools = UsedPools(context)
        if facts is None or not self.is_read or self.allocator is Allocator.UPSTREAM:
            return lambda _: all_pools
        objects = self._objects()
        allocators = find_pod_allocators(objects, self.gates, self.configuration, facts)
        owned = frozenset(each.name for each in allocators.owned)
        in_owned = replace(
            self.judge_context(generated, slices=owned),
            unowned=find_unowned_classes(
                facts, owned_pools(self.configuration), objects.nodes, context
            ),
        )
        # Whether such devices can come is told by those that are published elsewhere.
        fleet = {name: context.fleet[name] for name in in_owned.unowned if name in context.fleet}
        in_owned = replace(in_owned, fleet={**in_owned.fleet, **fleet})
        ours = UsedPools(in_owned, "in the pools of ownedPools")
        others = all_pools
        if allocators.kept_off:
            left = frozenset(each.name for each in objects.slices) - allocators.kept_off
            unfenced = self.judge_context(generated, slices=left, obeys_fence=True)
            others = UsedPools(unfenced, "outside the pools of ownedPools")
        return lambda pod: ours if allocators.choose(pod) is Allocator.DRAWBRIDGE else others

    def judge_context(
        self,
        generated: Iterable[Template] = (),
        *,
        slices: Container[str] | None = None,
        obeys_fence: bool = False,
    ) -> JudgeContext:
        """Return the context of judgements; `generated` are templates that do not exist yet.

        Without `slices`, the names of those that count, all do. Only the allocator of Drawbridge
        does not obey the fence.
        """
        planner = Planner(
            self.gates,
            compatibility=compatibility_declarations(self.configuration),
            unset_groups=UnsetGroups(self.configuration.unset_groups),
            allocator=self.allocator,
        )
        obeys_fence |= self.allocator is Allocator.UPSTREAM
        ledger = Ledger(quotas=self._new_quotas(planner))
        for files in (self.cluster, self.input):
            counting = [each for each in files.slices if slices is None or each.name in slices]
            rules = files.taint_rules if obeys_fence else without_fence(files.taint_rules)
            published: tuple[Iterable[PlannerObject], ...] = (
                counting, rules, files.classes, files.nodes,
            )  # fmt: skip
            for change in chain.from_iterable(published):
                planner.update(change)
            for claim in files.claims:
                ledger.observe(claim)
        return build_context(
            planner.world(),
            planner.nodes.values(),
            fleet=self.configuration.fleet,
            families=known_families(self.configuration),
            view=ledger.view() if self.is_read else None,
            policies=self.configuration.findings,
            lookups=replace(self._lookups(generated), device_quotas=ledger.quotas),
        )

    def _new_quotas(self, planner: Planner) -> QuotaUse:
        """Return the quotas of the configuration, by the labels of the namespaces."""
        quotas = QuotaUse(device_quotas(self.configuration), published_capacity(planner.find_pool))
        for name, labels in _namespace_labels((self.cluster, self.input)).items():
            quotas.set_labels(name, labels)
        return quotas

    def _lookups(self, generated: Iterable[Template]) -> ObjectLookups:
        both = (self.cluster, self.input)
        claims = {_key(each): each for each in self.cluster.claims}
        claims |= {
            _key(each): _with_uid_of(claims.get(_key(each)), each) for each in self.input.claims
        }
        templates = {_key(each): each for files in both for each in files.templates}
        templates |= {_key(each): each for each in generated}
        labels = _namespace_labels(both)
        quotas: dict[str, list[ResourceQuota]] = {}
        for quota in _decode_quotas(both):
            quotas.setdefault(quota.metadata.namespace or _DEFAULT, []).append(quota)
        return ObjectLookups(
            find_claim=lambda *key: claims.get(key),
            find_template=lambda *key: templates.get(key),
            find_namespace_labels=labels.get,
            find_quotas=lambda namespace: quotas.get(namespace, ()),
            is_unreadable=self._is_unreadable,
            complete=self.is_read,
        )

    def _is_unreadable(self, kind: str, namespace: str, name: str) -> bool:
        """Tell whether a document of the input has this name; readable ones are found before.

        Where claims or templates may not be listed, each can be one that is there.
        """
        if kind in (CLAIM, TEMPLATE) and not self.claims_read:
            return True
        names = {f"{kind}/{namespace}/{name}"}
        if namespace in ("", _DEFAULT):
            names.add(f"{kind}/{name}")
        return not names.isdisjoint(self.input.places)


def _key(claim: Claim | Template) -> tuple[str, str]:
    return claim.metadata.namespace or _DEFAULT, claim.metadata.name


def _with_uid_of(existing: Claim | None, claim: Claim) -> Claim:
    """Return a claim of a file, which may exist in the cluster already."""
    if existing is None or claim.metadata.uid:
        return claim
    return replace(claim, metadata=replace(claim.metadata, uid=existing.metadata.uid))


def _namespace_labels(files: Iterable[ClusterObjects]) -> dict[str, Mapping[str, str]]:
    return labels_of_namespaces(each.value for one in files for each in one.others)


def _decode_quotas(files: Iterable[ClusterObjects]) -> Iterable[ResourceQuota]:
    reader = quota_reader()
    for document in (each for one in files for each in one.others):
        if get_value(document.value, ("kind",)) == "ResourceQuota":
            quota = reader.read(document.value)
            if isinstance(quota, ResourceQuota):
                yield quota
