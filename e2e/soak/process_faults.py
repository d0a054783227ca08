"""Faults of processes: each begins on a cluster, and returns what it was and what ends it."""

from collections.abc import Callable

from e2e.nodes.fleet import Fleet
from e2e.soak.cluster import SoakCluster

Begun = tuple[str, Callable[[], None]]


def nothing() -> None:
    """End a fault that is over."""


def _allocator(cluster: SoakCluster) -> str:
    return cluster.some_pair().allocator.name


def _scheduler(cluster: SoakCluster) -> str:
    return cluster.some_pair().running_scheduler().name


def _both(cluster: SoakCluster) -> tuple[str, str]:
    pair = cluster.some_pair()
    return pair.allocator.name, pair.running_scheduler().name


def kill_allocator(cluster: SoakCluster) -> Begun:
    """Kill one allocator."""
    name = _allocator(cluster)
    return name, _kill(cluster, name)


def kill_scheduler(cluster: SoakCluster) -> Begun:
    """Kill one scheduler."""
    name = _scheduler(cluster)
    return name, _kill(cluster, name)


def kill_pair(cluster: SoakCluster) -> Begun:
    """Kill a pair, as a node that fails."""
    names = _both(cluster)
    return names[0], _kill(cluster, *names)


def kill_allocators(cluster: SoakCluster) -> Begun:
    """Kill all allocators."""
    names = [pair.allocator.name for pair in cluster.pairs]
    return ", ".join(names), _kill(cluster, *names)


def kill_replica(cluster: SoakCluster) -> Begun:
    """Kill a process of webhook or controller; the Service has the new one afterwards."""
    replicas = cluster.stage.placement.cluster.replicas
    name = cluster.random.choice([replica.name for replica in replicas])
    start = _kill(cluster, name)

    def start_and_connect() -> None:
        start()
        cluster.stage.placement.cluster.start_all()

    return name, start_and_connect


def _kill(cluster: SoakCluster, *names: str) -> Callable[[], None]:
    kept = cluster.down | cluster.spared
    return cluster.kill(*(name for name in names if name not in kept))


def suspend_allocator(cluster: SoakCluster) -> Begun:
    """Stop one allocator."""
    name = _allocator(cluster)
    return name, _suspend(cluster, name)


def suspend_scheduler(cluster: SoakCluster) -> Begun:
    """Stop one scheduler, longer than its Lease lasts at most."""
    name = _scheduler(cluster)
    return name, _suspend(cluster, name)


def suspend_pair(cluster: SoakCluster) -> Begun:
    """Stop a pair, for over a minute at most."""
    names = _both(cluster)
    return names[0], _suspend(cluster, *names)


def _suspend(cluster: SoakCluster, *names: str) -> Callable[[], None]:
    running = [name for name in names if name not in cluster.down and cluster.parts[name].alive]
    return cluster.suspend(*running)


def suspend_apiserver(cluster: SoakCluster) -> Begun:
    """Stop the API server for some seconds."""
    seconds = cluster.random.uniform(2, 20)
    cluster.suspend_apiserver(seconds)
    return f"{seconds:.1f} s", nothing


def slow_apiserver(cluster: SoakCluster) -> Begun:
    """Stop it for half a second again and again."""
    times = cluster.random.randrange(5, 25)
    cluster.suspend_apiserver(0.5, times)
    return f"{times} times half a second", nothing


def kill_apiserver(cluster: SoakCluster) -> Begun:
    """Kill it, and start it again."""
    plane = cluster.stage.processes
    plane.processes["kube-apiserver"].kill()
    plane.start_apiserver()
    return "started again", nothing


def kill_controller_manager(cluster: SoakCluster) -> Begun:
    """Kill it, and start it again."""
    plane = cluster.stage.processes
    plane.processes["kube-controller-manager"].kill()
    plane.start_controller_manager()
    return "started again", nothing


def restart_node_side(cluster: SoakCluster) -> Begun:
    """Restart a driver and all kubelets; prepared claims stay prepared."""
    fleet: Fleet = cluster.stage.fleet
    name = cluster.random.choice(sorted(fleet.drivers))
    fleet.driver(name).restart()
    fleet.kubelet.restart()
    return name, nothing
