"""What a translation reads beside the pod, and what it returns.

A context belongs to one configuration and one version of the facts; its caches go with it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.patch import Edit
from drawbridge.documents.values import Value
from drawbridge.facts import serialized
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.translate.changes.patch import Original
from drawbridge.translate.changes.queues import Mappings
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.decisions.outcome import OutcomeCache
from drawbridge.translate.definitions import Definitions
from drawbridge.translate.legacy.networks import add_networks
from drawbridge.translate.targets.available import add_served_names

# Far more kinds of pods than a cluster has. Each takes some kilobytes.
MAX_KINDS_OF_PODS: Final = 1024
_MAX_KEY_BYTES: Final = 32 << 20


class TranslationContext(msgspec.Struct, frozen=True):
    """The input of a translation apart from the pod, and the caches that translations share."""

    configuration: Configuration = Configuration()
    facts: Facts | None = None
    facts_digest: str = ""  # empty without facts
    outcomes: OutcomeCache | None = None
    translations: BoundedCache[bytes, "Translation"] | None = None  # by pod essence
    queues: Mapping[str, str] = {}  # the default queue of Kueue, by namespace
    admin_access: Mapping[str, bool] = {}  # of the namespaces whose labels are known
    placements: Mapping[str, Placement] = {}  # of these namespaces; "" for all others
    original: Original = Original.FULL
    readable_names: bool = False  # of the templates of manifests
    namespace: str = ""  # of manifests that name none
    is_manifest: bool = False  # not of a pod that the API server has filled with defaults
    definitions: Definitions = {}
    # Of pods with native placement, with caches of its own, where the configuration has the other.
    native: "TranslationContext | None" = None
    declared: Configuration | None = None  # without the names and networks of the facts

    def placed(self, placement: Placement) -> "TranslationContext":
        """Return the context of the pods with a placement."""
        if self.configuration.placement is placement:
            return self
        other = self.native if placement is Placement.NATIVE else None
        configuration = msgspec.structs.replace(self.configuration, placement=placement)
        return msgspec.structs.replace(
            self,
            configuration=other.configuration if other else configuration,
            outcomes=other.outcomes if other else None,
            translations=other.translations if other else None,
            placements={},
            native=None,
        )

    def with_queues(self, queues: Mapping[str, str]) -> "TranslationContext":
        """Return the context with the default queues of namespaces."""
        native = self.native and msgspec.structs.replace(self.native, queues=queues)
        return msgspec.structs.replace(self, queues=queues, native=native)

    def by_facts(self, facts: Facts | None, digest: str = "") -> "TranslationContext":
        """Return the context by other facts, also of the names and networks that they add."""
        declared = self.declared or self.configuration
        placed = msgspec.structs.replace(declared, placement=self.configuration.placement)
        return make_context(placed, facts, digest, caches_pods=False)


class Translation(msgspec.Struct, frozen=True):
    """The translation of one pod; without edits the pod stays as it is."""

    edits: tuple[Edit, ...] = ()
    operations: tuple[dict[str, Value], ...] = ()  # the edits as a JSON patch
    templates: tuple[ClaimTemplate, ...] = ()
    findings: tuple[Finding, ...] = ()
    classes: tuple[str, ...] = ()  # the DeviceClasses of the templates
    mappings: Mappings = {}  # these by the legacy name that they replace
    classes_of: Mapping[str, Sequence[str]] = {}  # these by each removed name, also of amounts


def make_context(
    configuration: Configuration,
    facts: Facts | None = None,
    digest: str = "",
    *,
    caches_pods: bool = True,
) -> TranslationContext:
    """Build a context with empty caches; computes the hash of the facts once for all pods.

    `digest` is the hash under which the facts were published, if they were. Without `caches_pods`
    there is no cache of translations: for a caller that has a cache by the essence of pods.
    """
    context = TranslationContext(
        add_observed_names(configuration, facts),
        facts,
        digest or (serialized.facts_hash(facts) if facts else ""),
        declared=configuration,
    )
    native = None
    if configuration.placement is Placement.BRIDGE:
        native = _with_caches(context.placed(Placement.NATIVE), caches_pods=caches_pods)
    return _with_caches(msgspec.structs.replace(context, native=native), caches_pods=caches_pods)


def add_observed_names(configuration: Configuration, facts: Facts | None) -> Configuration:
    """Add the networks and the names of DeviceClasses in the facts to a configuration."""
    return add_served_names(add_networks(configuration, facts.networks if facts else ()), facts)


def _with_caches(context: TranslationContext, *, caches_pods: bool) -> TranslationContext:
    return msgspec.structs.replace(
        context,
        outcomes=BoundedCache(MAX_KINDS_OF_PODS),
        translations=BoundedCache(MAX_KINDS_OF_PODS, _MAX_KEY_BYTES) if caches_pods else None,
    )
