"""A pod that is refused is translated once it is written as the remedy says."""

from drawbridge.config.model import Configuration, Decisions
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from tests.tables import every_row
from tests.translate import worlds

SHARED_BY_MEMORY = {
    "HAMi's driver": ("hgx-h100 hami-core-gpu.project-hami.io", "hami-core-gpu.project-hami.io"),
    "NVIDIA's driver": ("hgx-h100 gpu.nvidia.com shares-memory", "gpu.nvidia.com"),
}
NAMED = {"nvidia.com/gpu.shared": "1"}
LABELLED = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}
# What a pod requests, and its node selector.
REPLICAS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "by name": (NAMED, {}),
    "several": ({"nvidia.com/gpu.shared": "2"}, {}),
    "by a node label": ({"nvidia.com/gpu": "1"}, LABELLED),
}


def translated(driver: str, limits: dict[str, str], labels: dict[str, str]) -> Translation:
    world, device_class = SHARED_BY_MEMORY[driver]
    configuration = Configuration(decisions=Decisions(allow_loss_of=("isolation",)))
    context = make_context(configuration, worlds.facts((world,), (device_class,)))
    container = {"name": "main", "resources": {"limits": limits}}
    return translate({"spec": {"nodeSelector": labels, "containers": [container]}}, context)


@every_row("driver", SHARED_BY_MEMORY)
def test_an_amount_of_memory_replaces_a_replica(driver: str) -> None:
    for replica, labels in REPLICAS.values():
        refused = translated(driver, replica, labels)
        (remedy,) = (e.remedy for e in refused.findings if e.code == "NotExpressible")
        assert remedy.startswith("Request nvidia.com/gpu and nvidia.com/gpumem, ")
        assert not refused.templates
        followed = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
        (template,) = translated(driver, followed, labels).templates
        (request,) = template.object["spec"]["spec"]["devices"]["requests"]
        assert request["exactly"]["capacity"]["requests"]["memory"] == "3000Mi"
