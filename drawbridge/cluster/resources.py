"""The resources that Drawbridge reads and writes, with their API paths."""

from typing import Any, Final

import msgspec

# An API object as decoded JSON.
ApiObject = dict[str, Any]


class Resource(msgspec.Struct, frozen=True):
    """A resource at one API version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the API version, for discovery."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def at_version(self, version: str) -> "Resource":
        """Return the resource at another API version."""
        return msgspec.structs.replace(self, version=version)

    def add_type(self, raw: bytes | msgspec.Raw) -> bytes:
        """Add apiVersion and kind to JSON that has neither: to an item of a list."""
        names = self.api_version.encode(), self.kind.encode()
        return b'{"apiVersion":"%b","kind":"%b",%b' % (*names, bytes(raw).lstrip()[1:])

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of one object, of the objects of a namespace, or of all objects."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{scope}/{self.plural}" + (f"/{name}" if name else "")


_DRA: Final = "resource.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
SLICES: Final = Resource(_DRA, "v1", "resourceslices", "ResourceSlice", namespaced=False)
CLASSES: Final = Resource(_DRA, "v1", "deviceclasses", "DeviceClass", namespaced=False)
CLAIMS: Final = Resource(_DRA, "v1", "resourceclaims", "ResourceClaim")
TEMPLATES: Final = Resource(_DRA, "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
# The version of 1.37. Earlier API servers serve another one of these, and only if it is enabled.
TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")
TAINT_RULES: Final = Resource(_DRA, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
NETWORKS: Final = Resource(
    "k8s.cni.cncf.io",
    "v1",
    "network-attachment-definitions",
    "NetworkAttachmentDefinition",
)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
# Of Kueue, where it is installed.
LOCAL_QUEUES: Final = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
CLUSTER_QUEUES: Final = Resource(
    "kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False
)
# Of the scheduler plugin Coscheduling, where it is installed.
COSCHEDULING_GROUPS: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
# Node groups, where Cluster API or Karpenter is installed.
MACHINE_DEPLOYMENTS: Final = Resource(
    "cluster.x-k8s.io", "v1beta1", "machinedeployments", "MachineDeployment"
)
MACHINE_POOLS: Final = Resource("cluster.x-k8s.io", "v1beta1", "machinepools", "MachinePool")
NODE_POOLS: Final = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
# Of NVIDIA's GPU Operator, where it is installed.
CLUSTER_POLICIES: Final = Resource(
    "nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False
)
GPU_CLUSTERS: Final = Resource(
    "nvidia.com", "v1alpha1", "gpuclusters", "GPUCluster", namespaced=False
)
MUTATING_WEBHOOKS: Final = Resource(
    _ADMISSION,
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS: Final = Resource(
    _ADMISSION,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
POLICIES: Final = Resource(
    _ADMISSION,
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
POLICY_BINDINGS: Final = Resource(
    _ADMISSION,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
_RBAC: Final = "rbac.authorization.k8s.io"
_FLOW: Final = "flowcontrol.apiserver.k8s.io"
CLUSTER_ROLES: Final = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
FLOW_SCHEMAS: Final = Resource(_FLOW, "v1", "flowschemas", "FlowSchema", namespaced=False)
PRIORITY_LEVELS: Final = Resource(
    _FLOW,
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
)
ALL: Final = (
    PODS,
    NODES,
    NAMESPACES,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    CONFIG_MAPS,
    SECRETS,
    DEPLOYMENTS,
    SLICES,
    CLASSES,
    CLAIMS,
    TEMPLATES,
    TAINT_RULES,
    EVENTS,
    ENDPOINT_SLICES,
    LEASES,
    PRIORITY_CLASSES,
    DISRUPTION_BUDGETS,
    VOLUMES,
    VOLUME_CLAIMS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    POLICIES,
    POLICY_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
)
