"""Faults of processes: each begins on a cluster, and returns what it was and what ends it."""

from collections.abc import Callable

from e2e.nodes.fleet import Fleet
from e2e.soak.cluster import SoakCluster

# What a fault was, and what ends it.
Begun = tuple[str, Callable[[], None]]
Begin = Callable[[SoakCluster], Begun]
Choose = Callable[[SoakCluster], tuple[str, ...]]


def nothing() -> None:
    """End a fault that is over."""


def an_allocator(cluster: SoakCluster) -> tuple[str, ...]:
    """Return one allocator."""
    return (cluster.some_pair().allocator.name,)


def a_scheduler(cluster: SoakCluster) -> tuple[str, ...]:
    """Return one scheduler."""
    return (cluster.some_pair().running_scheduler().name,)


def a_pair(cluster: SoakCluster) -> tuple[str, ...]:
    """Return the processes of a pair, which end together when their node fails."""
    pair = cluster.some_pair()
    return pair.allocator.name, pair.running_scheduler().name


def all_allocators(cluster: SoakCluster) -> tuple[str, ...]:
    """Return every allocator."""
    return tuple(pair.allocator.name for pair in cluster.pairs)


def kill(choose: Choose) -> Begin:
    """Return the fault that kills some processes."""

    def begin(cluster: SoakCluster) -> Begun:
        names = choose(cluster)
        return ", ".join(names), _kill(cluster, *names)

    return begin


def suspend(choose: Choose) -> Begin:
    """Return the fault that stops some processes with SIGSTOP."""

    def begin(cluster: SoakCluster) -> Begun:
        names = choose(cluster)
        running = [each for each in names if each not in cluster.down and cluster.parts[each].alive]
        return ", ".join(names), cluster.suspend(*running)

    return begin


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
