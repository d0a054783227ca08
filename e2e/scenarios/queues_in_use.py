"""Scenarios: quotas of Kueue in use, by kinds of workloads and over a migration."""

from collections.abc import Callable
from functools import partial

import yaml

from e2e.installed.installation import set_mode, wait_for_facts
from e2e.queues.manager import API, LABEL, kueue
from e2e.scenarios.objects import JSON, RESOURCE
from e2e.scenarios.queues import (
    GPU,
    GPU_CLASS,
    ONE_QUOTA,
    QUEUE,
    SECONDS,
    apply,
    conditions,
    gpu_pod,
    is_gated,
    job,
    make_queue,
    queue_scenario,
    start,
    usage,
    used,
    wait_charged,
    wait_job_runs,
)
from e2e.scenarios.stage import Stage

PODSET = "kueue.x-k8s.io/podset"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"
GROUP = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"
PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {
                    "matchExpressions": [
                        {"key": "nvidia.com/gpu.family", "operator": "In", "values": ["ampere"]}
                    ]
                },
            }
        ]
    }
}


def gpus(stage: Stage) -> JSON:
    """Return the spec of a pod with one GPU."""
    spec: JSON = stage.pod_object("none", limits={GPU: "1"})["spec"]
    return spec


def workload(stage: Stage, kind: str, name: str, replicas: int) -> JSON:
    """Return a Deployment or StatefulSet in the queue; each pod has one GPU."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {LABEL: QUEUE}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": gpus(stage)},
        },
    }


def wait_all_run(stage: Stage, app: str, count: int) -> list[JSON]:
    """Wait until so many pods of an application run, and return them."""

    def running() -> list[JSON]:
        pods = stage.client.get(stage.pod_path(), labelSelector=f"app={app}")["items"]
        ready = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return ready if len(ready) == count else []

    return stage.wait(f"{count} pods of {app} run", running, SECONDS)


@queue_scenario
def a_pod_over_the_quota_waits_until_a_job_ends(stage: Stage) -> None:
    """A Job and a plain pod have one quota, and the message names it."""
    stage.node("a", "dgx-a100", {GPU_CLASS: "full"})
    cluster = start(stage)
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={GPU: "1"}))
    queue = make_queue(stage, {GPU: 4})
    spec = stage.pod_object("none", limits={GPU: "2"})["spec"]
    apply(stage, cluster, job("train", spec, 2)).check()
    assert wait_charged(stage, "train") == {GPU: "4"}
    wait_job_runs(stage, "train", 2)
    apply(stage, cluster, gpu_pod(stage, "next")).check()
    stage.wait("Kueue says why", lambda: "insufficient" in conditions(stage, "next"), SECONDS)
    assert GPU in conditions(stage, "next"), conditions(stage, "next")
    assert is_gated(stage, "next")
    assert usage(stage, "next") is None
    cluster.kubectl.inside(stage.namespace)("delete", "job", "train").check()
    assert wait_charged(stage, "next") == {GPU: "1"}
    stage.wait_running("next")
    stage.wait("the queue has the pod alone", lambda: used(stage, queue) == {GPU: "1"}, SECONDS)


@queue_scenario
def kinds_are_charged_once(stage: Stage) -> None:
    """The pods of a Deployment after their translation, a StatefulSet and a Job before it."""
    stage.node("a", "dgx-a100", {GPU_CLASS: "full"})
    cluster = start(stage)
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={GPU: "1"}))
    queue = make_queue(stage, {GPU: 8})
    apply(stage, cluster, workload(stage, "Deployment", "web", 2)).check()
    wait_all_run(stage, "web", 2)
    apply(stage, cluster, workload(stage, "StatefulSet", "db", 2)).check()
    wait_all_run(stage, "db", 2)
    apply(stage, cluster, *group(stage, "pair", 2)).check()
    wait_all_run(stage, "pair", 2)
    apply(stage, cluster, job("train", gpus(stage), 2)).check()
    wait_job_runs(stage, "train", 2)
    stage.wait("all are charged once", lambda: used(stage, queue) == {GPU: "8"}, SECONDS)
    pods = stage.client.get(stage.pod_path())["items"]
    assert all(pod["spec"].get("resourceClaims") for pod in pods), pods
    parents = {pod["metadata"].get("annotations", {}).get(PARENT) for pod in pods}
    assert {"deployment", "statefulset"} <= parents, parents


def group(stage: Stage, name: str, count: int) -> list[JSON]:
    """Return the pods of a group of Kueue."""
    made = []
    for number in range(count):
        pod = gpu_pod(stage, f"{name}-{number}")
        pod["metadata"]["labels"] |= {"app": name, GROUP: name}
        pod["metadata"]["annotations"] = {COUNT: f"{count}"}
        made.append(pod)
    return made


@queue_scenario
def a_default_queue_that_comes_later_charges_new_pods(stage: Stage) -> None:
    """The processes go on. Pods of before keep their claims, and what follows is charged."""
    stage.node("a", "dgx-a100", {GPU_CLASS: "full"})
    stage.node("b", "hgx-h100", {GPU_CLASS: "full"})
    cluster = start(stage)
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={GPU: "1"}))
    before = [each.started_process().child.pid for each in cluster.replicas]
    apply(stage, cluster, choosy(stage, "early")).check()
    stage.wait_running("early")
    assert "firstAvailable" in request_of(stage, "early")
    queue = make_queue(stage, {GPU: 8}, "default")

    def told(wanted: bool) -> bool:  # noqa: FBT001  # the answer that is expected
        ran = cluster.kubectl.inside(stage.namespace)(
            "apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(choosy(stage, "later"))
        )
        return ("queue default of Kueue refuses firstAvailable" in ran.err) is wanted

    # The webhook asks every minute whether Kueue is installed, and it was installed after it.
    stage.wait("admission knows the queue", partial(told, wanted=True), 2 * SECONDS)
    apply(stage, cluster, choosy(stage, "later")).check()
    assert wait_charged(stage, "later") == {GPU: "1"}
    stage.wait_running("later")
    assert "exactly" in request_of(stage, "later")
    apply(stage, cluster, choosy(stage, "early")).check()
    assert "firstAvailable" in request_of(stage, "early")
    stage.wait("the later pod is charged alone", lambda: used(stage, queue) == {GPU: "1"}, SECONDS)
    stage.client.delete(stage.path("localqueues", "default", API), grace=None)
    stage.wait("admission knows that the queue has gone", partial(told, wanted=False))
    assert [each.started_process().child.pid for each in cluster.replicas] == before


def choosy(stage: Stage, name: str) -> JSON:
    """Return a pod in no queue that prefers a kind of GPU."""
    pod = gpu_pod(stage, name, queue="")
    pod["spec"]["affinity"] = PREFERRED
    return pod


def request_of(stage: Stage, pod: str) -> JSON:
    """Return the only request of the claim of a pod."""
    (reference,) = stage.get_pod(pod)["spec"]["resourceClaims"]
    name = reference["resourceClaimTemplateName"]
    template = stage.client.get(stage.path("resourceclaimtemplates", name, RESOURCE))
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    return dict(request)


@queue_scenario
def labels_that_lie_get_no_second_budget(stage: Stage) -> None:
    """Marks of charged owners on plain pods, and a Job whose template names another queue."""
    stage.node("a", "dgx-a100", {GPU_CLASS: "full"})
    cluster = start(stage)
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={GPU: "1"}))
    queue, other = make_queue(stage, {GPU: 1}), make_queue(stage, {GPU: 1}, "team-b")
    apply(stage, cluster, gpu_pod(stage, "honest")).check()
    stage.wait_running("honest")
    of_job, of_set, train = (
        gpu_pod(stage, "of-job"),
        gpu_pod(stage, "of-set"),
        job("train", gpus(stage)),
    )
    of_job["metadata"]["labels"][PODSET] = "main"
    of_set["metadata"]["annotations"] = {PARENT: "statefulset"}
    train["spec"]["template"]["metadata"] = {"labels": {LABEL: "team-b"}}
    apply(stage, cluster, of_job, of_set, train).check()
    for name in ("of-job", "train"):
        stage.wait(
            f"{name} waits for quota",
            partial(lambda name: "insufficient" in conditions(stage, name), name),
            SECONDS,
        )
    assert is_gated(stage, "of-set"), "Kueue waits for a StatefulSet that admits it"
    assert _names(stage) == {"honest"}
    stage.wait("one is charged", lambda: used(stage, queue) == {GPU: "1"}, SECONDS)
    assert used(stage, other) == {}
    stage.delete_pod("honest")
    stage.wait("another runs", lambda: len(_names(stage)) == 1, SECONDS)
    stage.wait("it is charged", lambda: used(stage, queue) == {GPU: "1"}, SECONDS)
    assert used(stage, other) == {}


@queue_scenario
def a_class_without_a_mapping_is_reported(stage: Stage) -> None:
    """Kueue admits no pod with claims then, `kubectl apply` says so before, and doctor after."""
    stage.node("a", "dgx-a100", {GPU_CLASS: "full"})
    cluster = start(stage, [{"name": "example.com/other", "deviceClassNames": ["other"]}])
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={GPU: "1"}))
    make_queue(stage, {GPU: 8})
    ran = apply(stage, cluster, gpu_pod(stage, "single")).check()
    assert "does not admit claims of gpu.nvidia.com unless it maps the class" in ran.err, ran
    stage.wait("Kueue refuses it", lambda: "not mapped" in conditions(stage, "single"), SECONDS)
    assert is_gated(stage, "single")
    for name, expected in (
        ("", "maps no name to DeviceClass gpu.nvidia.com"),
        ("gpus", f"has a quota for {GPU}: two quotas for the same devices"),
        (GPU, "Kueue maps 1 name to DeviceClasses"),
    ):
        if name:
            kueue(cluster).configure([{"name": name, "deviceClassNames": [GPU_CLASS]}])
        checked = cluster.drawbridge("doctor", "--context")
        assert expected in checked.out, checked


@queue_scenario
def a_namespace_migrates_under_a_quota_in_use(stage: Stage) -> None:
    """Pods of the plugin and translated pods share one quota; no GPU has a second budget."""
    machine = stage.hardware("old", "dgx-a100")
    stage.node("old", "dgx-a100", {}, {GPU: tuple(gpu.uuid for gpu in machine.gpus)})
    cluster = start(stage, ONE_QUOTA)
    set_mode(stage, "off")
    queue = make_queue(stage, {GPU: 4})
    watch = Budget(stage, queue, 4)
    apply(stage, cluster, job("legacy", gpus(stage), 2)).check()
    watch.wait("the Job of the plugin runs", lambda: len(_running(stage)) == 2)
    stage.node("new", "hgx-h100", {GPU_CLASS: "full"})
    set_mode(stage, "enforce")
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={GPU: "1"}))
    apply(stage, cluster, job("moved", gpus(stage), 1)).check()
    apply(stage, cluster, gpu_pod(stage, "single")).check()
    watch.wait("both run with claims", lambda: len(_running(stage)) == 4)
    watch.wait("four are charged", lambda: used(stage, queue) == {GPU: "4"})
    translated = [pod for pod in _running(stage) if pod["spec"].get("resourceClaims")]
    assert len(translated) == 2, translated
    apply(stage, cluster, gpu_pod(stage, "fifth")).check()
    watch.wait("the fifth waits", lambda: "insufficient" in conditions(stage, "fifth"))
    assert is_gated(stage, "fifth")
    cluster.kubectl.inside(stage.namespace)("delete", "job", "legacy", "--wait=false").check()
    watch.wait("the fifth runs", lambda: "fifth" in _names(stage))
    watch.wait("three are charged", lambda: used(stage, queue) == {GPU: "3"})


def _running(stage: Stage) -> list[JSON]:
    pods = stage.client.get(stage.pod_path())["items"]
    return [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]


def _names(stage: Stage) -> set[str]:
    return {pod["metadata"]["name"] for pod in _running(stage)}


class Budget:
    """Compares the GPUs of a namespace with its quota, at each look at its state."""

    def __init__(self, stage: Stage, queue: str, quota: int) -> None:
        self._stage, self._queue, self._quota = stage, queue, quota

    def wait(self, what: str, question: Callable[[], object]) -> None:
        """Wait for a condition, and check the budget each time it is asked."""

        def asked() -> object:
            self._check()
            return question()

        self._stage.wait(what, asked, SECONDS)

    def _check(self) -> None:
        """Compare what runs, and what Kueue has charged by any name, with the quota."""
        running = _running(self._stage)
        assert len(running) <= self._quota, [pod["metadata"]["name"] for pod in running]
        by_name = used(self._stage, self._queue)
        assert set(by_name) <= {GPU}, by_name
        assert sum(map(int, by_name.values())) <= self._quota, by_name
