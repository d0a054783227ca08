"""The strategies of bridge placement in the Configuration."""

from collections.abc import Mapping
from typing import Annotated

from drawbridge.config.part import ConfigurationPart, describe
from drawbridge.config.string_formats import WeightName
from drawbridge.dra.rules import StrategyName, Weight


class Strategy(ConfigurationPart, frozen=True):
    """How to choose between suitable devices."""

    default: Annotated[
        StrategyName,
        describe(
            "The order of nodes and devices with `placement: bridge`, after the preferences of"
            " claims. `first-fit` takes the first ones, as the default scheduler does. Without"
            " effect with `native`."
        ),
    ] = "usable"
    classes: Annotated[
        Mapping[str, StrategyName],
        describe(
            "The order for pods that request devices of a DeviceClass, instead of the default."
            " The first such class in the claims of a pod decides."
        ),
    ] = {}
    weights: Annotated[
        Mapping[WeightName, Weight],
        describe(
            "The weights of the parts of a score: of capacities of the devices, such as `memory`,"
            " of `devices`, `near`, `node.cpu` and `node.memory`. What is not named has none, but"
            " `near` 10, and `devices` 1 if nothing is named. Without effect on `first-fit`,"
            " `best-fit`, `fgd` and `usable`."
        ),
    ] = {}
    class_weights: Annotated[
        Mapping[str, Mapping[WeightName, Weight]],
        describe(
            "The weights for pods that request devices of a DeviceClass, instead of `weights`. The"
            " first such class in the claims of a pod decides."
        ),
    ] = {}
