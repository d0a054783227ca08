"""Says which fields of the manifests the values of the Helm chart control.

Each function edits one kind of object in place. `edit` also returns the condition of an object that
is rendered only with some values.
"""

from typing import Any, Final

from tools.chart_text import Placeholders

JSON = dict[str, Any]
_CERT_MANAGER: Final = 'eq .Values.tls.mode "cert-manager"'
_MANAGED: Final = 'eq .Values.tls.mode "managed"'
# Components with objects of their own, by their label.
_COMPONENTS: Final = {"judge": ".Values.judge.enabled", "scheduler": ".Values.scheduler.enabled"}
_SCHEDULER_IMAGE: Final = 'include "drawbridge.schedulerImage" . | quote'
# Objects of the components, and objects of the base that can be turned off.
_CONDITIONS: Final = {
    "Certificate": _CERT_MANAGER,
    "FlowSchema": ".Values.priorityAndFairness.enabled",
    "Issuer": _CERT_MANAGER,
    "NetworkPolicy": ".Values.networkPolicy.enabled",
    "PodDisruptionBudget": ".Values.podDisruptionBudget.enabled",
    "PodMonitor": ".Values.podMonitor.enabled",
    "PriorityLevelConfiguration": ".Values.priorityAndFairness.enabled",
    "PrometheusRule": ".Values.prometheusRule.enabled",
    "ResourceQuota": "and .Values.resourceQuota.enabled .Values.priorityClassName",
    "ValidatingAdmissionPolicy": ".Values.admissionPolicies.enabled",
    "ValidatingAdmissionPolicyBinding": ".Values.admissionPolicies.enabled",
}
# The rights on Secrets, and the limits of these rights, which only managed certificates need.
_CONDITIONS_OF_NAMES: Final = dict.fromkeys(
    (
        "drawbridge-controller-ca",
        "drawbridge-controller-secrets",
        "drawbridge-judge-ca",
        "drawbridge-scheduler-ca",
        "drawbridge-webhook-ca",
    ),
    _MANAGED,
)
# The values of labels of kinds that have more of them. One mapping, so that no key is repeated.
_MORE_LABELS: Final = {
    kind: (
        f"merge (dict) (.Values.{value}.labels | default dict)"
        " (.Values.commonLabels | default dict)"
    )
    for kind, value in (("PodMonitor", "podMonitor"), ("PrometheusRule", "prometheusRule"))
}
_WITH: Final = """\
{{{{- with {value} }}}}
{key}:
  {{{{- toYaml . | nindent %2 }}}}
{{{{- end }}}}"""
_MERGED: Final = """\
{{{{- with {value} }}}}
{{{{- toYaml . | nindent %0 }}}}
{{{{- end }}}}"""
_ANNOTATIONS: Final = """\
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent %2 }}
{{- end }}"""
_HOOK_ANNOTATIONS: Final = """\
{{- if or .Values.commonAnnotations (ne .Values.tls.mode "managed") }}
annotations:
  {{- with .Values.commonAnnotations }}
  {{- toYaml . | nindent %2 }}
  {{- end }}
  {{- if eq .Values.tls.mode "secret" }}
  drawbridge.dev/ca: external
  {{- end }}
  {{- if eq .Values.tls.mode "cert-manager" }}
  cert-manager.io/inject-ca-from: "{{ .Release.Namespace }}/drawbridge-webhook"
  {{- end }}
{{- end }}"""
_EXPRESSIONS: Final = """\
{{- if .Values.admissionWebhooks.requireLabel }}
- {key: drawbridge.dev/translate, operator: Exists}
{{- end }}
- {key: drawbridge.dev/translate, operator: NotIn, values: ["off"]}"""
_EXCLUDED: Final = """\
- key: kubernetes.io/metadata.name
  operator: NotIn
  values:
    {{- range append .Values.admissionWebhooks.excludeNamespaces .Release.Namespace }}
    - {{ . | quote }}
    {{- end }}
{{- with .Values.admissionWebhooks.matchExpressions }}
{{- toYaml . | nindent %0 }}
{{- end }}"""
_CA_BUNDLE: Final = """\
{{- if and (ne .Values.tls.mode "cert-manager") .Values.tls.caBundle }}
caBundle: {{ .Values.tls.caBundle }}
{{- end }}"""
_TLS_FILES: Final = """\
{{- if ne .Values.tls.mode "managed" }}
- --tls-cert=/etc/drawbridge/tls/tls.crt
- --tls-key=/etc/drawbridge/tls/tls.key
{{- end }}"""
_TLS_EXTERNAL: Final = """\
{{- if ne .Values.tls.mode "managed" }}
- --certificates=external
{{- end }}"""
_TLS_MOUNT: Final = """\
{{- if ne .Values.tls.mode "managed" }}
- name: tls
  mountPath: /etc/drawbridge/tls
  readOnly: true
{{- end }}"""
_TLS_VOLUME: Final = """\
{{- if ne .Values.tls.mode "managed" }}
- name: tls
  secret:
    secretName: drawbridge-webhook-tls
{{- end }}"""
# What the API server calls can be in the network of the node: the ports there, other ones for each
# part, so that both can be on one node.
_NODE_PORTS: Final = {
    "webhook": {"admission": 19443, "health": 18081, "metrics": 18080},
    "judge": {"admission": 19444, "health": 18083, "metrics": 18082},
}
# The pods of two parts can be on different nodes, but the listeners of a pod share a network.
_DISTINCT_PORTS: Final = '{{{{- include "drawbridge.distinctPorts" (dict {ports}) }}}}'
_HOST_NETWORK: Final = """\
{{{{- if {value}.hostNetwork }}}}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{{{- end }}}}"""
_HOST_IP: Final = """\
{{{{- if and {value}.hostNetwork (eq {value}.metricsAddress "node") }}}}
env:
  - name: HOST_IP
    valueFrom:
      fieldRef:
        fieldPath: status.hostIP
{{{{- end }}}}"""
_PROBED: Final = """\
{{{{- if {value}.hostNetwork }}}}
host: 127.0.0.1
{{{{- end }}}}"""
_LISTEN: Final = """\
{{{{- if or {value}.hostNetwork {value}.ports.{name} }}}}
- {option}={host}:{{{{ {port} }}}}
{{{{- end }}}}"""
# No NetworkPolicy has an effect in the network of the node. The kubelet probes on loopback.
_LISTENERS: Final = {
    "admission": ("--listen", ""),
    "health": ("--health", "{{{{ if {value}.hostNetwork }}}}127.0.0.1{{{{ end }}}}"),
    "metrics": (
        "--metrics",
        (
            "{{{{ if {value}.hostNetwork }}}}"
            '{{{{ ternary "[$(HOST_IP)]" "127.0.0.1" (eq {value}.metricsAddress "node") }}}}'
            "{{{{ end }}}}"
        ),
    ),
}
_CONFIGURATION: Final = """\
config.yaml: |
  apiVersion: drawbridge.dev/v1alpha1
  kind: Configuration
  {{- with omit (.Values.configuration | default dict) "apiVersion" "kind" }}
  {{- toYaml . | nindent %2 }}
  {{- end }}"""


def edit(source: JSON, holders: Placeholders) -> str:
    """Put the expressions of the values into an object; return its condition, if it has one."""
    kind, metadata = source["kind"], source["metadata"]
    labels = _MORE_LABELS.get(kind, ".Values.commonLabels")
    metadata.setdefault("labels", {})[holders.lines(_merge(labels))] = None
    hooks = kind.endswith("WebhookConfiguration")
    metadata[holders.lines(_HOOK_ANNOTATIONS if hooks else _ANNOTATIONS)] = None
    if kind == "Deployment":
        _edit_deployment(source, holders)
    elif hooks:
        for hook in source["webhooks"]:
            _edit_webhook(hook, holders)
    elif metadata["name"] == "drawbridge-config":
        source["data"] = {holders.lines(_CONFIGURATION): None}
    elif kind == "PodMonitor":
        _edit_pod_monitor(source, holders)
    elif kind == "NetworkPolicy":
        _edit_network_policy(source, holders)
    elif kind == "PrometheusRule":
        _edit_rules(source, holders)
    elif kind == "ResourceQuota":
        source["spec"]["hard"]["pods"] = holders.inline(".Values.resourceQuota.pods | quote")
        (selected,) = source["spec"]["scopeSelector"]["matchExpressions"]
        selected["values"] = [holders.inline(".Values.priorityClassName | quote")]
    elif kind == "PodDisruptionBudget":
        budget = ".Values.podDisruptionBudget.minAvailable"
        source["spec"]["minAvailable"] = holders.inline(budget)
    return _find_condition(source)


def _find_condition(source: JSON) -> str:
    """Return the condition of an object's component, kind and name."""
    component = source["metadata"]["labels"].get("app.kubernetes.io/component", "")
    of_each = (
        _COMPONENTS.get(component, ""),
        _CONDITIONS.get(source["kind"], ""),
        _CONDITIONS_OF_NAMES.get(source["metadata"]["name"], ""),
    )
    conditions = [each for each in of_each if each]
    if len(conditions) < 2:
        return "".join(conditions)
    return " ".join(["and", *(f"({each})" if " " in each else each for each in conditions)])


def _merge(value: str) -> str:
    return _MERGED.format(value=value)


def _with(key: str, value: str) -> str:
    return _WITH.format(key=key, value=value)


def _edit_deployment(source: JSON, holders: Placeholders) -> None:
    name = source["metadata"]["labels"]["app.kubernetes.io/component"]
    value = f".Values.{name}"
    source["spec"]["replicas"] = holders.inline(f"{value}.replicas")
    template = source["spec"]["template"]
    for field, extra in (("labels", "podLabels"), ("annotations", "podAnnotations")):
        if field in template["metadata"]:
            line = holders.lines(_merge(f"{value}.{extra}"))
            template["metadata"][field][line] = None
        else:
            template["metadata"][holders.lines(_with(field, f"{value}.{extra}"))] = None
    pod = template["spec"]
    pod["priorityClassName"] = holders.inline(".Values.priorityClassName | quote")
    spread = _render_spread(pod.pop("topologySpreadConstraints"), f"{value}.topologySpread")
    pod[holders.lines(spread)] = None
    pod[holders.lines(_with("imagePullSecrets", ".Values.imagePullSecrets"))] = None
    for field in ("nodeSelector", "tolerations", "affinity"):
        pod[holders.lines(_with(field, f"{value}.{field}"))] = None
    if name == "scheduler":
        _edit_scheduler(pod, value, holders)
        return
    (container,) = pod["containers"]
    if name in _NODE_PORTS:
        _edit_network(source["spec"], value, _NODE_PORTS[name], holders)
    _edit_container(container, value, holders)
    _edit_tls(name, pod, container, holders)


def _edit_network(spec: JSON, value: str, ports: dict[str, int], holders: Placeholders) -> None:
    """Let the values choose the ports and the network of what the API server calls."""
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    listening = {}
    pod[holders.lines(_HOST_NETWORK.format(value=value))] = None
    container[holders.lines(_HOST_IP.format(value=value))] = None
    for port in container["ports"]:
        name = port["name"]
        inside = f"ternary {ports[name]} {port['containerPort']} {value}.hostNetwork"
        expression = f"{value}.ports.{name} | default ({inside})"
        port["containerPort"] = holders.inline(expression)
        listening[f"{value}.ports.{name}"] = expression
        option, host = _LISTENERS[name]
        listen = _LISTEN.format(
            value=value, name=name, option=option, host=host.format(value=value), port=expression
        )
        container["args"].append(holders.lines(listen))
    named = (f'"{each.removeprefix(".Values.")}" ({port})' for each, port in listening.items())
    pod[holders.lines(_DISTINCT_PORTS.format(ports=" ".join(named)))] = None
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        container[probe]["httpGet"][holders.lines(_PROBED.format(value=value))] = None
    # Two replicas cannot share a node and its ports: a rollout ends one before it begins another.
    rolling = spec["strategy"]["rollingUpdate"]
    for field, number in (("maxUnavailable", 1), ("maxSurge", 0)):
        rolling[field] = holders.inline(f"ternary {number} {rolling[field]} {value}.hostNetwork")


def _edit_scheduler(pod: JSON, value: str, holders: Placeholders) -> None:
    """Edit the kube-scheduler and the allocator beside it, which have images of their own."""
    scheduler, allocator = pod["containers"]
    _edit_container(scheduler, value, holders)
    scheduler["image"] = holders.inline(_SCHEDULER_IMAGE)
    # kube-scheduler has no names for levels.
    scheduler["args"][-1] = holders.lines(_render_arguments(value))
    _edit_container(allocator, f"{value}.allocator", holders)
    _edit_tls("allocator", pod, allocator, holders)


def _render_spread(constraints: list[JSON], value: str) -> str:
    """Return the default constraints, unless the values replace them."""
    holders = Placeholders()
    default = holders.dump({"topologySpreadConstraints": constraints}).rstrip("\n")
    return (
        f'{{{{- if kindIs "invalid" {value} }}}}\n{default}\n{{{{- else if {value} }}}}\n'
        f"topologySpreadConstraints:\n  {{{{- toYaml {value} | nindent %2 }}}}\n{{{{- end }}}}"
    )


def _edit_container(container: JSON, value: str, holders: Placeholders) -> None:
    container["image"] = holders.inline('include "drawbridge.image" . | quote')
    container["imagePullPolicy"] = holders.inline(".Values.image.pullPolicy")
    container["args"].append(
        holders.lines(
            '{{- if ne .Values.logLevel "info" }}\n'
            "- --log-level={{ .Values.logLevel }}\n{{- end }}\n" + _render_arguments(value)
        )
    )
    container["resources"] = {
        holders.lines(f"{{{{- toYaml {value}.resources | nindent %0 }}}}"): None
    }


def _render_arguments(value: str) -> str:
    return f"{{{{- range {value}.extraArgs }}}}\n- {{{{ . | quote }}}}\n{{{{- end }}}}"


def _edit_tls(name: str, pod: JSON, container: JSON, holders: Placeholders) -> None:
    """Let the processes read certificates from a Secret, unless the controller makes them."""
    if name == "controller":
        container["args"].insert(0, holders.lines(_TLS_EXTERNAL))
        return
    container["args"].insert(0, holders.lines(_TLS_FILES))
    container["volumeMounts"].append(holders.lines(_TLS_MOUNT))
    pod["volumes"].append(holders.lines(_TLS_VOLUME))


def _edit_webhook(hook: JSON, holders: Placeholders) -> None:
    hook["clientConfig"][holders.lines(_CA_BUNDLE)] = None
    hook["timeoutSeconds"] = holders.inline(
        f"min {hook['timeoutSeconds']} .Values.admissionWebhooks.timeoutSeconds"
    )
    if hook["name"] == "pods.drawbridge.dev":
        hook["failurePolicy"] = holders.inline(".Values.admissionWebhooks.failurePolicy")
    if hook["name"] == "guard.drawbridge.dev":
        # The controller manages the field, and an upgrade must not take it back.
        hook["failurePolicy"] = holders.inline('include "drawbridge.guardFailurePolicy" .')
    selector = hook.get("namespaceSelector")
    if selector is None or "matchLabels" in selector:  # no namespace, or that of the release
        return
    labelled = len(selector["matchExpressions"]) > 1
    expressions = ([_EXPRESSIONS] if labelled else []) + [_EXCLUDED]
    selector["matchExpressions"] = [holders.lines(each) for each in expressions]


def _edit_pod_monitor(source: JSON, holders: Placeholders) -> None:
    for endpoint in source["spec"]["podMetricsEndpoints"]:
        endpoint["interval"] = holders.inline(".Values.podMonitor.interval")


def _edit_rules(source: JSON, holders: Placeholders) -> None:
    for rule in (rule for group in source["spec"]["groups"] for rule in group["rules"]):
        if "alert" in rule:
            page = rule["annotations"]["runbook_url"].partition("#")[0]
            rule["annotations"]["runbook_url"] = holders.quote(
                rule["annotations"]["runbook_url"], page, "{{ .Values.prometheusRule.runbookUrl }}"
            )


def _edit_network_policy(source: JSON, holders: Placeholders) -> None:
    admission, metrics, api = source["spec"]["ingress"]
    admission[holders.lines(_with("from", ".Values.networkPolicy.admissionFrom"))] = None
    metrics["from"] = [
        holders.lines("{{- toYaml .Values.networkPolicy.metricsFrom | nindent %0 }}")
    ]
    api["from"] = [holders.lines("{{- toYaml .Values.networkPolicy.apiFrom | nindent %0 }}")]
    api_server = source["spec"]["egress"][0]
    api_server["ports"] = [
        holders.lines(
            "{{- range .Values.networkPolicy.apiServerPorts }}\n"
            "- {port: {{ . }}, protocol: TCP}\n{{- end }}"
        )
    ]
