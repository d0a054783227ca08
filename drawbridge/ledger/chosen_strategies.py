"""Which strategy decides about a pod: that of its claims, of their classes, or the default.

The rules of claims come first, then the Configuration. Weights are those of the rules, else those
of the first class that has some, else the default ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from drawbridge.choice.catalog import FIRST_FIT, ChosenStrategy, choose_strategy
from drawbridge.choice.levels import LEVELS, Levels
from drawbridge.config.strategy import Strategy
from drawbridge.config.string_formats import WeightName
from drawbridge.dra.claim import Claim
from drawbridge.dra.rules import Rules, RuleStrategy, find_rules

T = TypeVar("T")

_BY_LEVELS: Final[Mapping[Levels, str]] = {levels: name for name, levels in LEVELS.items()}


class StrategyNames(NamedTuple):
    """The strategies of the configuration: the default, and others by class of the devices."""

    default: str = FIRST_FIT
    by_class: Mapping[str, str] = {}
    weights: Mapping[str, int] = {}
    weights_by_class: Mapping[str, Mapping[str, int]] = {}

    @property
    def order(self) -> bool:
        """Whether any of them orders nodes."""
        return any(each != FIRST_FIT for each in (self.default, *self.by_class.values()))

    @property
    def of_others(self) -> ChosenStrategy:
        """The strategy for pods that nothing else is said about."""
        return choose_strategy(self.default, self.weights)

    def of(self, claims: Sequence[Claim]) -> ChosenStrategy:
        """Return the strategy for the claims of a pod."""
        classes = [*_classes(claims)]
        name, weights = (
            _first(classes, self.by_class, self.default),
            _first(classes, self.weights_by_class, self.weights),
        )
        rule = _rule_of(claims)
        if rule is None:
            return choose_strategy(name, weights)
        return choose_strategy(_name_in(rule, name), rule.weights or weights)

    def names(self, chosen: ChosenStrategy) -> bool:
        """Whether the configuration names a strategy, and not only a pod."""
        named = (self.default, *self.by_class.values())
        return self.knows(chosen) and any(
            choose_strategy(each, {}).name == chosen.name for each in named
        )

    def knows(self, chosen: ChosenStrategy) -> bool:
        """Whether the weights of a strategy are those of the configuration, or none."""
        weights = dict(chosen.weights)
        return not weights or weights in (self.weights, *self.weights_by_class.values())


ALL_FIRST_FIT: Final = StrategyNames()


def strategy_names(strategy: Strategy) -> StrategyNames:
    """Return the strategies that a configuration names."""
    return StrategyNames(
        strategy.default,
        strategy.classes,
        _plain(strategy.weights),
        {name: _plain(each) for name, each in strategy.class_weights.items()},
    )


def _plain(weights: Mapping[WeightName, int]) -> dict[str, int]:
    return {f"{name}": weight for name, weight in weights.items()}


def _rule_of(claims: Iterable[Claim]) -> RuleStrategy | None:
    """Return what the rules of the first claim with a strategy say."""
    for claim in claims:
        rules = find_rules(claim.metadata.annotations)
        if isinstance(rules, Rules) and rules.strategy is not None:
            return rules.strategy
    return None


def _name_in(rule: RuleStrategy, configured: str) -> str:
    """Return the strategy of a rule.

    A rule about nodes alone says the same of devices if the configured strategy does not. The
    search obeys a rule about devices alone, so that it changes nothing here.
    """
    if rule.name is not None or rule.nodes is None:
        return rule.name or configured
    levels = LEVELS.get(choose_strategy(configured, {}).name)
    devices = rule.devices or (rule.nodes if levels is None else levels.devices)
    return _BY_LEVELS[Levels(rule.nodes, devices)]


def _classes(claims: Iterable[Claim]) -> Iterable[str]:
    requests = (each for claim in claims for each in claim.spec.devices.requests)
    parts = chain.from_iterable((each.exactly, *each.first_available) for each in requests)
    return (each.device_class_name for each in parts if each is not None)


def _first(classes: Iterable[str], by_class: Mapping[str, T], default: T) -> T:
    return next((by_class[each] for each in classes if each in by_class), default)
