"""Says in which mode pods of a namespace are, which rule decided that, and what translates them."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.agreement.match_conditions import KIND
from drawbridge.agreement.scope import (
    Mode,
    PodMetadata,
    PodScope,
    ScopeRule,
    decide_namespace_scope,
    decide_pod_scope,
    find_root_owner,
    is_shown_by_pods,
    read_metadata,
)
from drawbridge.agreement.webhook_selectors import PodWebhook
from drawbridge.config.model import Rollout, Scope
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.finding import Finding
from drawbridge.names import POD_WEBHOOK, TRANSLATE_LABEL, WEBHOOK_CONFIGURATION
from drawbridge.report import codes
from drawbridge.report.not_translated import FindMode, PodMode, find_no_mode

_WEBHOOK: Final = f"{KIND} {WEBHOOK_CONFIGURATION}"
# What decided, as the output says it beside the mode.
SOURCES: Final[Mapping[ScopeRule, str]] = {
    ScopeRule.EXCLUDED: "scope.excludeNamespaces",
    ScopeRule.NAMESPACE_LABEL: "label of the namespace",
    ScopeRule.SELECTOR: "scope.namespaceSelector",
    ScopeRule.NOT_OPTED_IN: "namespace not opted in",
    ScopeRule.POD_LABEL: "label of the pod",
    ScopeRule.ROLLOUT: "scope.rollout.percent",
    ScopeRule.NOT_CALLED: f"not called by {_WEBHOOK}",
    ScopeRule.SWITCHED_OFF: f"{_WEBHOOK} is switched off",
}
_MOVE: Final = (
    f"move it to a namespace in scope that the selectors of {_WEBHOOK} select, or change these"
    " selectors"
)
_REMEDIES: Final[Mapping[ScopeRule, str]] = {
    ScopeRule.EXCLUDED: "take the namespace out of scope.excludeNamespaces",
    ScopeRule.ROLLOUT: "raise scope.rollout.percent",
    ScopeRule.NOT_CALLED: _MOVE,
    ScopeRule.SWITCHED_OFF: "run `drawbridge on`",
}
_INSTALL: Final = "install Drawbridge"
# Why a pod is not translated.
_REASONS: Final[Mapping[ScopeRule, str]] = {
    ScopeRule.EXCLUDED: "scope.excludeNamespaces names its namespace",
    ScopeRule.NOT_OPTED_IN: "its namespace is not opted in",
    ScopeRule.NOT_CALLED: f"the selectors of {_WEBHOOK} do not select it",
    ScopeRule.SWITCHED_OFF: "Drawbridge is switched off",
}
_LABELS: Final[Mapping[str, str]] = {
    Mode.REPORT: "its namespace is in report mode",
    Mode.OFF: "its namespace is opted out",
}
_UNKNOWN_LABEL: Final = "the label of its namespace is not valid"
_UNKNOWN_MODE: Final = PodMode(
    None,
    None,
    "whether pods of its namespace are translated is not known, because the configuration was not"
    " read",
    "ask a cluster administrator whether pods of its namespace are translated",
)


class _Rule(NamedTuple):
    """A rule that keeps a pod from being translated: why, and what changes it."""

    why: str
    remedy: str


class _Decider(NamedTuple):
    """The name and the labels of a namespace, and what decides about its pods.

    `webhook` is the live one for pods: None if it is unknown, without selectors if it is missing.
    """

    namespace: str
    labels: Mapping[str, str]
    scope: Scope
    webhook: PodWebhook | None

    def find_mode(self, pod: Value) -> PodMode:
        """Return the mode of a pod, with all rules that keep it from being translated."""
        metadata = read_metadata(pod)
        decider = self._replace(scope=self._scope_of(pod, metadata))
        decided, rules = decider.decide(metadata), [*decider.find_rules(metadata)]
        # Move the pod, or change the selectors and all the rest.
        remedies = dict.fromkeys(each.remedy for each in rules)
        ordered = sorted(remedies, key=lambda each: each != _MOVE)
        whys = ", and ".join(each.why for each in rules)
        return PodMode(decided.mode, decided.rule, whys, ", and ".join(ordered))

    def decide(self, metadata: PodMetadata) -> PodScope:
        """Return the mode of a pod; off while the webhook is switched off."""
        if self.webhook is not None and self.webhook.is_switched_off:
            return PodScope(Mode.OFF, ScopeRule.SWITCHED_OFF)
        return decide_pod_scope(self.namespace, self.labels, metadata, self.scope, self.webhook)

    def find_rules(self, metadata: PodMetadata) -> Iterator[_Rule]:
        """Yield the rule that decides, then what decides once it is changed."""
        decided = self.decide(metadata)
        if decided.mode is not Mode.ENFORCE:
            remedy = _REMEDIES.get(decided.rule, codes.LABEL_NAMESPACE)
            if decided.rule is ScopeRule.NOT_CALLED and self._lacks_webhook:
                remedy = _INSTALL
            yield _Rule(self._explain(decided, metadata), remedy)
            if decided.rule is not ScopeRule.POD_LABEL:
                yield from self._change(decided.rule).find_rules(metadata)

    def _change(self, rule: ScopeRule) -> "_Decider":
        """Return what decides once a rule no longer keeps pods from being translated."""
        webhook = self.webhook
        match rule:
            case ScopeRule.SWITCHED_OFF if webhook is not None:
                return self._replace(webhook=replace(webhook, is_switched_off=False))
            case ScopeRule.NOT_CALLED:
                return self._replace(webhook=None)
            case ScopeRule.EXCLUDED:
                return self._replace(scope=replace(self.scope, exclude_namespaces=()))
            case ScopeRule.ROLLOUT:
                return self._replace(scope=replace(self.scope, rollout=Rollout()))
            case _:
                return self._replace(labels={**self.labels, TRANSLATE_LABEL: Mode.ENFORCE})

    @property
    def _lacks_webhook(self) -> bool:
        return self.webhook is not None and not self.webhook.selectors

    def _scope_of(self, pod: Value, metadata: PodMetadata) -> Scope:
        """Return the scope without the rollout if a template does not tell who owns its pods."""
        owners = metadata.owner_references or ()
        is_known = get_value(pod, ("metadata", "uid")) or all(map(is_shown_by_pods, owners))
        # 0 percent leaves out the pods of all owners.
        if is_known or not self.scope.rollout.percent:
            return self.scope
        return replace(self.scope, rollout=Rollout())

    def _explain(self, decided: PodScope, metadata: PodMetadata) -> str:
        if decided.rule is ScopeRule.NAMESPACE_LABEL:
            return _LABELS.get(f"{self.labels.get(TRANSLATE_LABEL)}", _UNKNOWN_LABEL)
        if decided.rule is ScopeRule.ROLLOUT:
            owner = find_root_owner(self.namespace, metadata).partition("/")[2]
            percent = self.scope.rollout.percent
            return f"scope.rollout.percent is {percent}, which does not include {owner}"
        if decided.rule is ScopeRule.NOT_CALLED and self._lacks_webhook:
            return f"webhook {POD_WEBHOOK} is not registered"
        return _REASONS.get(decided.rule, "")


def find_modes(namespace: Value, scope: Scope | None, webhook: PodWebhook | None) -> FindMode:
    """Return what finds the modes of the pods of a namespace.

    They are not known if the namespace was not read. Without the scope, only a label that is not
    `enforce` tells them.
    """
    if namespace is None:
        return find_no_mode
    name, labels = _read_namespace(namespace)
    # Another value keeps pods from being translated, whatever the configuration says.
    if scope is None and labels.get(TRANSLATE_LABEL, Mode.ENFORCE) == Mode.ENFORCE:
        return lambda _: _UNKNOWN_MODE
    return _Decider(name, labels, scope or Scope(), webhook).find_mode


def check_label(namespace: Value, scope: Scope) -> tuple[Finding, ...]:
    """Return findings about the label of a namespace."""
    return decide_namespace_scope(*_read_namespace(namespace), scope).findings


def _read_namespace(namespace: Value) -> tuple[str, Mapping[str, str]]:
    """Return the name and the labels of a namespace."""
    metadata = as_mapping(get_value(namespace, ("metadata",)))
    labels = {key: f"{text}" for key, text in as_mapping(metadata.get("labels")).items()}
    return f"{metadata.get('name')}", labels
