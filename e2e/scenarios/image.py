"""Scenarios: the processes run from the file system of the image, confined as the manifests say."""

from pathlib import Path

from e2e.installed.image import image_root
from e2e.installed.installation import dry_run, installed, wait_for_facts
from e2e.installed.replica import Replica
from e2e.scenarios import admission
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

NEEDS = ("processes", "loopback")
USER = "65532"
KUBERNETES = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
COMMIT = "usr/local/lib/python3.11/dist-packages/drawbridge/process/commit.txt"
# Larger than what the webhook reviews in its own process.
LARGE = 40 * 1024


@scenario("full", rig="image", needs=NEEDS)
def a_legacy_pod_is_admitted_by_processes_of_the_image(stage: Stage) -> None:
    """The image serves admission, and the pod runs on the devices of its claim."""
    admission.a_legacy_pod_runs_on_the_devices_of_its_claim(stage)


@scenario("full", rig="image", needs=NEEDS)
def processes_of_the_image_are_confined(stage: Stage) -> None:
    """They have the user, the rights and the file system of the manifests, and no shell."""
    cluster = installed(stage)
    for replica in cluster.replicas:
        process = inner_process(replica)
        status = dict(
            line.split(":\t", 1) for line in (process / "status").read_text().splitlines()
        )
        assert status["Uid"].split() == [USER] * 4, status["Uid"]
        assert status["Gid"].split() == [USER] * 4, status["Gid"]
        assert status["Groups"].split() == [USER], status["Groups"]
        assert status["NSpid"].split()[-1] == "1", "not the first process of its namespace"
        assert status["NoNewPrivs"] == "1"
        rights = {status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")}
        assert rights == {"0" * 16}, rights
        assert mount_options(process, "/") >= {"ro"}
        assert mount_options(process, "/tmp") >= {"rw", "nosuid"}  # noqa: S108  # of the image
        assert not [
            name for name in ("bin/sh", "usr/bin/apt-get") if (process / "root" / name).exists()
        ]
        variables = (process / "environ").read_text().split("\0")
        names = {each.partition("=")[0] for each in variables if each}
        assert names == {*image_root().variables, "HOSTNAME", *KUBERNETES}, names


@scenario("full", rig="image", needs=NEEDS)
def processes_of_the_image_say_their_commit(stage: Stage) -> None:
    """The metric and the log name the commit that the image was built of."""
    cluster = installed(stage)
    commit = (image_root().folder / COMMIT).read_text().strip()
    for replica in cluster.replicas:
        assert replica.metric("drawbridge_build_info", commit=commit) == 1
        (line,) = replica.messages("starting")
        assert line["commit"] == commit, line


@scenario("full", rig="image", needs=NEEDS)
def a_large_pod_is_reviewed_in_the_image(stage: Stage) -> None:
    """The process for large reviews starts from the image as well."""
    cluster = installed(stage)
    admission.add_gpu_node(stage)
    small = admission.legacy_pod(stage, "small")
    wait_for_facts(stage, cluster, small)
    large = admission.legacy_pod(stage, "large", annotations={"note": "x" * LARGE})
    assert dry_run(stage, large)["spec"]["resourceClaims"]


@scenario("full", rig="image", needs=NEEDS)
def processes_of_the_image_stop_and_start_again(stage: Stage) -> None:
    """SIGTERM ends the first process of a container with 0, and kill -9 leaves nothing behind."""
    cluster = installed(stage)
    webhook, controller = cluster.webhooks[0], cluster.controllers[0]
    assert (webhook.stop(), controller.stop()) == (0, 0)
    killed = cluster.webhooks[1]
    process = inner_process(killed)
    killed.kill()
    stage.wait("the killed process is gone", lambda: not process.exists())
    cluster.start_all()


def inner_process(replica: Replica) -> Path:
    """Return the folder in /proc of the process in the image."""
    outer = replica.started_process().child.pid
    (inner,) = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    return Path(f"/proc/{inner}")


def mount_options(process: Path, place: str) -> set[str]:
    """Return the options of what is mounted at a place of the process."""
    lines = (process / "mountinfo").read_text().splitlines()
    mounts = [line.split() for line in lines if line.split()[4] == place]
    return set(mounts[-1][5].split(","))
