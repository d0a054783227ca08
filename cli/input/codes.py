"""The codes of findings about reading a cluster from the command line."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

CLUSTER_UNREADABLE = CODES.define(
    "ClusterUnreadable",
    Severity.ERROR,
    text="The command cannot connect to the API server, or you are not allowed to read an object.",
    example='resourceclaims is forbidden: User "jane" cannot list resource "resourceclaims"',
    remedy=(
        "Check `--kubeconfig` and `--context`. Ask the cluster administrator for read access, or "
        "pass files with `-f` or `--cluster`."
    ),
)
PART_UNREADABLE = CODES.define(
    "PartUnreadable",
    Severity.INFO,
    text="You are not allowed to read an optional object, so the output lacks some details.",
    example='namespaces "team-a" is forbidden: User "jane" cannot get resource "namespaces"',
    remedy="No action is required. Ask for read access to see the missing details.",
)
CONFIGURATION_NOT_READ = CODES.define(
    "ConfigurationNotRead",
    Severity.WARNING,
    text=(
        "The command cannot read the configuration of Drawbridge in the cluster. It uses the "
        "defaults, so its result may differ from what the webhook does."
    ),
    example='configmaps "drawbridge-config" is forbidden: User "jane" cannot get it',
    remedy=(
        "Pass the configuration with `--config`, or ask for the permission to get the ConfigMap "
        "drawbridge-config."
    ),
)
SWITCH_INCOMPLETE = CODES.define(
    "SwitchIncomplete",
    Severity.ERROR,
    text="A part of `drawbridge off` or `drawbridge on` failed. The other parts are done.",
    example='mutatingwebhookconfigurations "drawbridge" is forbidden: User "jane" cannot patch it',
    remedy="Repeat the command. It changes only what is not as wanted yet.",
)
POD_UNKNOWN = CODES.define(
    "PodUnknown",
    Severity.ERROR,
    text="The pod or workload does not exist, or several namespaces have one of that name.",
    example="Pod train not found in namespace default",
    remedy="Check the name, and set the namespace with `-n`. For a workload, pass TYPE/NAME.",
)
CLAIM_NOT_ADJUSTABLE = CODES.define(
    "ClaimNotAdjustable",
    Severity.ERROR,
    text="The claim has no allocation on a node of the input, or no such request.",
    example="ResourceClaim research/train has no allocation",
    remedy=(
        "Name an allocated claim and a request of it. `drawbridge explain devices` lists who holds "
        "devices."
    ),
)
DEVICE_NOT_FOUND = CODES.define(
    "DeviceNotFound",
    Severity.ERROR,
    text="The node does not exist, or no driver publishes a device of this name on it.",
    example="node gpu-7 has no device gpu-9",
    remedy="`drawbridge explain devices` lists all devices that are held.",
)

KUSTOMIZATION_NOT_BUILT = CODES.define(
    "KustomizationNotBuilt",
    Severity.ERROR,
    text=(
        "A kustomization cannot be built, or the input is only a part of one. Its bases, patches "
        "and components are not read alone: what they give is known after the build only."
    ),
    example="overlays/prod: the folder is a kustomization, and no program to build it is installed",
    remedy="Pass the output: `kustomize build DIR | drawbridge ... -f -`.",
)
CHART_NOT_RENDERED = CODES.define(
    "ChartNotRendered",
    Severity.ERROR,
    text=(
        "A folder is a Helm chart. Drawbridge does not render it, because the release and its "
        "values decide what the chart gives."
    ),
    example="charts/vllm: the folder is a Helm chart, as it has Chart.yaml",
    remedy="Pass the output: `helm template RELEASE DIR -f VALUES | drawbridge ... -f -`.",
)
RENDERED_BY_HELM = CODES.define(
    "RenderedByHelm",
    Severity.WARNING,
    text=(
        "A file is the output of `helm template`. Whoever renders the chart again loses a "
        "translation that is written into the file."
    ),
    example=(
        "Deployment/vllm: the file is rendered from the Helm chart vllm, which overwrites the "
        "translation"
    ),
    remedy=(
        "Translate in the pipeline that renders: `helm template RELEASE DIR -f VALUES | drawbridge "
        "translate -f -`."
    ),
)
USAGE_MISSING = CODES.define(
    "UsageMissing",
    Severity.ERROR,
    text=(
        "There is no book of usage. The leading controller writes the first one some minutes after "
        "its start."
    ),
    example="no ConfigMap has a book of usage",
    remedy=(
        "Check that a controller leads (`drawbridge doctor`) and that you may read the ConfigMaps "
        "drawbridge-usage-01 to -31. Pass files with --cluster."
    ),
)
ALLOCATOR_NOT_ASKED = CODES.define(
    "AllocatorNotAsked",
    Severity.WARNING,
    text=(
        "The command gets no answer from the API of the allocator, so the output does not contain "
        "what the allocator knows."
    ),
    example="https://127.0.0.1:9443: red may not get pods in namespace blue",
    remedy=(
        "Check `--allocator-url` and `--allocator-ca`, and that the kubeconfig has a token with "
        "the rights that docs/api.md lists."
    ),
)
FILE_NOT_WRITTEN = CODES.define(
    "FileNotWritten",
    Severity.ERROR,
    text=(
        "A translated manifest cannot be written to the folder. The command writes no file at all."
    ),
    example="--output-dir: manifests/train.yaml is an input of this command",
    remedy="Choose another folder.",
)
