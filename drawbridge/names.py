"""The names of Drawbridge's labels, annotations and objects in a cluster."""

from collections.abc import Mapping
from typing import Final

API_VERSION: Final = "drawbridge.dev/v1alpha1"

# Labels.
TRANSLATE_LABEL: Final = "drawbridge.dev/translate"
# On a namespace, the placement of its pods; on a translated pod, an annotation: how it was decided.
PLACEMENT_LABEL: Final = "drawbridge.dev/placement"
DUAL_LABEL: Final = "drawbridge.dev/dual"
# On a node, the driver that has its devices after their move from the plugin. The plan of
# `drawbridge audit` sets it. Node selectors of plugins and drivers read it; Drawbridge does not.
DEVICES_LABEL: Final = "drawbridge.dev/devices"
# Kubernetes allows requests with admin access only in namespaces where this label is "true".
ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"

# The finalizer that Kubernetes gives a claim with an allocation.
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"

# On a node, or a Job, that a plan of `drawbridge audit` moves: how it was before.
MOVING_ANNOTATION: Final = "drawbridge.dev/moving"

# The taint of nodes whose pools only the Drawbridge allocator allocates from.
OWNED_TAINT: Final = "drawbridge.dev/owned"

# Annotations.
ORIGINAL_ANNOTATION: Final = "drawbridge.dev/original"
FACTS_ANNOTATION: Final = "drawbridge.dev/facts"
# What the translation notes on a pod.
POD_ANNOTATIONS: Final = (ORIGINAL_ANNOTATION, FACTS_ANNOTATION, PLACEMENT_LABEL)
RULES_ANNOTATION: Final = "drawbridge.dev/rules"
# On a pod: the strategy for its nodes and devices, and the weights of the parts of its scores.
STRATEGY_ANNOTATION: Final = "drawbridge.dev/strategy"
WEIGHTS_ANNOTATION: Final = "drawbridge.dev/strategy-weights"
# On a pod: how often it writes a checkpoint, such as 30m; that bounds what its eviction loses.
CHECKPOINTS_ANNOTATION: Final = "drawbridge.dev/checkpoint-interval"
# On a DeviceTaintRule that selects every device: "true" says that this is meant.
SELECTS_ALL_ANNOTATION: Final = "drawbridge.dev/selects-all"
# The default start of the names of attributes that the Configuration derives.
PARTITION_ATTRIBUTE: Final = "drawbridge.dev/partition"
ALLOCATION_ANNOTATION: Final = "drawbridge.dev/allocation"
# The condition of a pod whose claim was given back: which one, so that the pod can have others.
RELEASED_CONDITION: Final = "drawbridge.dev/released"
COMPATIBILITY_ANNOTATION: Final = "drawbridge.dev/compatibility"
# On a node: the pod for which its devices are held, as a plan to defragment asks for.
HOLD_ANNOTATION: Final = "drawbridge.dev/held-for"
# Of a node: the time in its fence, once the controller has watched this fence for the settle time.
SETTLED_ANNOTATION: Final = "drawbridge.dev/fence-settled"
# On the Lease of the scheduler: the versions that an allocator has to know before it writes.
REQUIRED_VERSIONS_ANNOTATION: Final = "drawbridge.dev/required-versions"
# The time when a pod last referred to a template.
USED_ANNOTATION: Final = "drawbridge.dev/used"
FACTS_ORDER_ANNOTATION: Final = "drawbridge.dev/facts-order"
# On the configuration in use: the hash of its text, and whether the offered one was accepted.
HASH_ANNOTATION: Final = "drawbridge.dev/hash"
CONDITIONS_ANNOTATION: Final = "drawbridge.dev/conditions"
PROBE_ANNOTATION: Final = "drawbridge.dev/probe"
# On the pods of the webhook: the paths that older versions do not serve.
SERVES_ANNOTATION: Final = "drawbridge.dev/serves"
# On a webhook configuration: `external` says that another client sets its caBundle.
CA_ANNOTATION: Final = "drawbridge.dev/ca"
# On the mirrored quota: the classes whose claims count for a legacy name.
QUOTA_CLASSES_ANNOTATION: Final = "drawbridge.dev/quota-classes"

# On what a process writes for itself.
MANAGED_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "drawbridge"}
MANAGED_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())

# The field manager of every write. A template with another manager is not only Drawbridge's.
FIELD_MANAGER: Final = "drawbridge"
# The field manager of the condition that switches the webhooks off.
SWITCH_FIELD_MANAGER: Final = "drawbridge-switch"
# The field manager of caBundle.
CA_FIELD_MANAGER: Final = "drawbridge-certificates"

# Objects.
NAMESPACE: Final = "drawbridge-system"
# In a pod: the name of the first claim of a translation, and the beginning of further names.
POD_CLAIM: Final = "drawbridge"
TEMPLATE_PREFIX: Final = "drawbridge-"
FACTS_CONFIG_MAP: Final = "drawbridge-facts"
# The policy that refuses allocations from owned pools to others.
FENCE_POLICY: Final = "drawbridge-owned-devices"
# An annotation of it with the pools that it names for a while only: nobody of ours uses them.
LEAVING_POOLS_ANNOTATION: Final = "drawbridge.dev/leaving-pools"
# The policies that limit the account of the controller.
CONTROLLER_POLICIES: Final = ("drawbridge-controller-secrets", "drawbridge-controller-webhooks")
CONFIGURATION_CONFIG_MAP: Final = "drawbridge-config"
CONFIGURATION_IN_USE_CONFIG_MAP: Final = "drawbridge-config-in-use"
# The key of the Configuration in both.
CONFIGURATION_KEY: Final = "config.yaml"
MIRRORED_QUOTA: Final = "drawbridge-quota"
PROBE_TEMPLATE: Final = "drawbridge-probe"
# A number with two digits follows.
USAGE_CONFIG_MAP_PREFIX: Final = "drawbridge-usage-"
CONTROLLER_LEASE: Final = "drawbridge-controller"
# The scheduler of bridge placement, as pods name it.
SCHEDULER_NAME: Final = "drawbridge"
SCHEDULER_LEASE: Final = "drawbridge-scheduler"
CA_SECRET: Final = "drawbridge-ca"  # noqa: S105  # a name
WEBHOOK_DEPLOYMENT: Final = "drawbridge-webhook"
CONTROLLER_DEPLOYMENT: Final = "drawbridge-controller"
JUDGE_DEPLOYMENT: Final = "drawbridge-judge"
SCHEDULER_DEPLOYMENT: Final = "drawbridge-scheduler"
SCHEDULER_ACCOUNT: Final = "drawbridge-scheduler"
# On all objects that the manifests install.
PART_LABEL: Final = "app.kubernetes.io/part-of"
PART_OF: Final = "drawbridge"
WEBHOOK_SERVICE: Final = "drawbridge-webhook"
WEBHOOK_CONFIGURATION: Final = "drawbridge"
JUDGE_SERVICE: Final = "drawbridge-judge"
ALLOCATOR_SERVICE: Final = "drawbridge-allocator"
ALLOCATOR_SECRET: Final = "drawbridge-allocator-tls"  # noqa: S105  # a name
JUDGE_CONFIGURATION: Final = "drawbridge-judge"
POD_WEBHOOK: Final = "pods.drawbridge.dev"
GUARD_WEBHOOK: Final = "guard.drawbridge.dev"
