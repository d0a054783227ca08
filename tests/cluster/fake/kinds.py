"""The kinds of the fake API server, independent of the resource table of the product."""

import functools
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

JSON = dict[str, Any]
T = TypeVar("T")


def copied(value: T) -> T:
    """Copy a JSON value; through its text, because the codec is in C."""
    copy: T = msgspec.json.decode(msgspec.json.encode(value))
    return copy


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of object, of which there is one each; `frozen` lists its immutable fields.

    Those that are set `once` can be removed afterwards, and not changed.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    status: bool = False
    frozen: tuple[str, ...] = ()
    once: tuple[tuple[str, str], ...] = ()

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def long_name(self) -> str:
        """The name that messages use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _read(text: str) -> tuple[Kind, ...]:
    kinds = []
    for line in text.split("\n"):
        if words := line.split():
            group, _, version = words[0].rpartition("/")
            flags = words[3:]
            kinds.append(
                Kind(
                    group,
                    version,
                    words[1],
                    words[2],
                    "cluster" not in flags,
                    "status" in flags,
                    ("spec",) if "frozen" in flags else (),
                    (("status", "allocation"),) if "allocated" in flags else (),
                )
            )
    return tuple(kinds)


KINDS = _read("""
v1                               pods                            Pod                            status
v1                               nodes                           Node                           cluster status
v1                               namespaces                      Namespace                      cluster status
v1                               configmaps                      ConfigMap
v1                               secrets                         Secret
v1                               services                        Service                        status
v1                               serviceaccounts                 ServiceAccount
v1                               limitranges                     LimitRange
v1                               resourcequotas                  ResourceQuota                  status
v1                               replicationcontrollers          ReplicationController          status
apps/v1                          deployments                     Deployment                     status
apps/v1                          replicasets                     ReplicaSet                     status
apps/v1                          statefulsets                    StatefulSet                    status
apps/v1                          daemonsets                      DaemonSet                      status
batch/v1                         jobs                            Job                            status
batch/v1                         cronjobs                        CronJob                        status
coordination.k8s.io/v1           leases                          Lease
discovery.k8s.io/v1              endpointslices                  EndpointSlice
events.k8s.io/v1                 events                          Event
policy/v1                        poddisruptionbudgets            PodDisruptionBudget            status
jobset.x-k8s.io/v1alpha2         jobsets                         JobSet                         status
kueue.x-k8s.io/v1beta2           localqueues                     LocalQueue                     status
kueue.x-k8s.io/v1beta2           clusterqueues                   ClusterQueue                   cluster status
cluster.x-k8s.io/v1beta1         machinedeployments              MachineDeployment              status
karpenter.sh/v1                  nodepools                       NodePool                       cluster status
nvidia.com/v1                    clusterpolicies                 ClusterPolicy                  cluster status
nvidia.com/v1alpha1              gpuclusters                     GPUCluster                     cluster status
scheduling.k8s.io/v1             priorityclasses                 PriorityClass                  cluster
scheduling.k8s.io/v1alpha1       workloads                       Workload                       frozen
scheduling.k8s.io/v1alpha2       podgroups                       PodGroup                       status
scheduling.x-k8s.io/v1alpha1     podgroups                       PodGroup                       status
resource.k8s.io/v1               resourceslices                  ResourceSlice                  cluster
resource.k8s.io/v1               deviceclasses                   DeviceClass                    cluster
resource.k8s.io/v1               resourceclaims                  ResourceClaim                  status frozen allocated
resource.k8s.io/v1               resourceclaimtemplates          ResourceClaimTemplate          frozen
resource.k8s.io/v1               devicetaintrules                DeviceTaintRule                cluster status
admissionregistration.k8s.io/v1  mutatingwebhookconfigurations   MutatingWebhookConfiguration   cluster
admissionregistration.k8s.io/v1  validatingwebhookconfigurations ValidatingWebhookConfiguration cluster
admissionregistration.k8s.io/v1  validatingadmissionpolicies     ValidatingAdmissionPolicy      cluster status
admissionregistration.k8s.io/v1  validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster
apiextensions.k8s.io/v1          customresourcedefinitions       CustomResourceDefinition       cluster status
rbac.authorization.k8s.io/v1     clusterroles                    ClusterRole                    cluster
rbac.authorization.k8s.io/v1     clusterrolebindings             ClusterRoleBinding             cluster
flowcontrol.apiserver.k8s.io/v1  flowschemas                     FlowSchema                     cluster status
flowcontrol.apiserver.k8s.io/v1  prioritylevelconfigurations     PriorityLevelConfiguration     cluster status
""")  # noqa: E501  # a table


@functools.cache
def of_path(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind of a path."""
    wanted = (group, version, plural)
    return next((one for one in KINDS if (one.group, one.version, one.plural) == wanted), None)


def of_object(value: JSON) -> Kind:
    """Return the kind of an object."""
    return _of_words(value["apiVersion"], value["kind"])


@functools.cache
def _of_words(api_version: str, kind: str) -> Kind:
    return next(one for one in KINDS if (one.api_version, one.kind) == (api_version, kind))


@functools.cache
def named(name: str) -> Kind:
    """Return a kind by its plural, its name, or the name that messages use."""
    return next(one for one in KINDS if name in (one.plural, one.kind, one.long_name))
