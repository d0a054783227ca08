"""The findings of this package: what stands between a command and a cluster."""

from dra.finding import Code, Codes, Severity

CLUSTER_UNREADABLE = Code(
    name="ClusterUnreadable",
    severity=Severity.ERROR,
    text="The API server cannot be reached, or does not let you read what the command is about.",
    example='resourceclaims is forbidden: User "jane" cannot list resource "resourceclaims"',
    remedy=(
        "Check --kubeconfig and --context, and ask whoever runs the cluster for the right to read "
        "this; or give files with -f or --cluster."
    ),
)
PART_UNREADABLE = Code(
    name="PartUnreadable",
    severity=Severity.INFO,
    text="You may not read something that the answer would be fuller with.",
    example='namespaces "team-a" is forbidden: User "jane" cannot get resource "namespaces"',
    remedy="Nothing has to be done; with the right to read it the answer says more.",
)
CONFIGURATION_UNREAD = Code(
    name="ConfigurationNotRead",
    severity=Severity.WARNING,
    text=(
        "The configuration that admission follows in the cluster cannot be read, so the defaults "
        "count, and admission may say something else."
    ),
    example='configmaps "drawbridge-config" is forbidden: User "jane" cannot get it',
    remedy="Give it with --config, or ask for the right to get the ConfigMap drawbridge-config.",
)
POD_UNKNOWN = Code(
    name="PodUnknown",
    severity=Severity.ERROR,
    text="There is no such pod, or there are several of that name and no namespace was given.",
    example="there is no Pod train in namespace default",
    remedy="Name the pod as it is called, and its namespace with -n.",
)

CODES = Codes("cli", (CLUSTER_UNREADABLE, PART_UNREADABLE, CONFIGURATION_UNREAD, POD_UNKNOWN))
