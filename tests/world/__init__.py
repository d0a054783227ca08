"""A simulated cluster in one process, with one clock and one seed.

The allocators and the controller are the real ones, from their requests to the API server to the
calls of the scheduler. Around them are models: API servers in memory, schedulers, kubelets, drivers
and the controllers of Kubernetes. A run is a script of events and a seed, replays byte for byte,
and shrinks to the fewest events that still break an invariant:

    python -m tests.world --seeds 100
    python -m tests.world --seed 7 --story
"""
