"""The registries of all processes."""

from prometheus_client import CollectorRegistry

from drawbridge.process import metrics

REGISTRIES = tuple(each for each in vars(metrics).values() if isinstance(each, CollectorRegistry))
