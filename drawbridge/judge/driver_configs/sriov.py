"""The SR-IOV driver: how a virtual function is bound and which network configures it."""

from collections.abc import Iterator
from typing import Final

from drawbridge.dra.decode_errors import describe_choice
from drawbridge.judge.driver_configs.model import (
    ConfigDriver,
    ConfigFields,
    ConfigKind,
    ConfigProblem,
    TypedConfig,
)

_MAX_VLAN: Final = 4094
_MAX_QOS: Final = 7
_PROTOCOLS: Final = ("802.1q", "802.1ad")
_LINK_STATES: Final = ("auto", "enable", "disable")
# The commit that decodes `vf`, and the last one of the main branch that was read, which does not.
_WITH_LINK: Final = "ca70b092"
_WITHOUT_LINK: Final = "cd9404f, of 2026-08-19,"


class _LinkConfig(ConfigFields, frozen=True):
    vlan: int | None = None
    qos: int | None = None
    vlan_proto: str | None = None
    spoof_chk: bool | None = None
    trust: bool | None = None
    min_tx_rate: int | None = None
    max_tx_rate: int | None = None
    link_state: str | None = None


class _VfConfig(TypedConfig, frozen=True):
    driver: str = ""
    add_vhost_mount: bool = False
    if_name: str = ""
    net_attach_def_name: str = ""
    net_attach_def_namespace: str = ""
    vf: _LinkConfig | None = None


def _refused_link(config: _VfConfig) -> Iterator[ConfigProblem]:
    if config.vf is None:
        return
    for path, message in (*_refused_groups(config.vf), *_refused_values(config.vf)):
        yield ConfigProblem(f"vf.{path}" if path else "vf", message)


def _newer_link(config: _VfConfig) -> Iterator[ConfigProblem]:
    if config.vf is not None:
        message = f"vf needs a driver with commit {_WITH_LINK}; {_WITHOUT_LINK} refuses it"
        yield ConfigProblem("vf", message)


def _refused_groups(link: _LinkConfig) -> Iterator[ConfigProblem]:
    """Find fields that are set without the others of their group."""
    network = (link.vlan, link.qos, link.vlan_proto)
    if None in network and network != (None, None, None):
        yield ConfigProblem("", "vlan, qos and vlanProto must be set together")
    rates = (link.min_tx_rate, link.max_tx_rate)
    if None in rates and rates != (None, None):
        yield ConfigProblem("", "minTxRate and maxTxRate must be set together")
    low, high = rates
    if low is not None and high is not None and low > high:
        yield ConfigProblem("minTxRate", f"minTxRate is {low}, more than maxTxRate {high}")


def _refused_values(link: _LinkConfig) -> Iterator[ConfigProblem]:
    for name, number, most in (("vlan", link.vlan, _MAX_VLAN), ("qos", link.qos, _MAX_QOS)):
        if number is not None and not 0 <= number <= most:
            yield ConfigProblem(name, f"{name} is {number}, must be 0 to {most}")
    for name, rate in (("minTxRate", link.min_tx_rate), ("maxTxRate", link.max_tx_rate)):
        if rate is not None and rate < 0:
            yield ConfigProblem(name, f"{name} is {rate}, must be 0 or more")
    choices = (
        ("vlanProto", link.vlan_proto, _PROTOCOLS),
        ("linkState", link.link_state, _LINK_STATES),
    )
    for name, text, allowed in choices:
        if text is not None and text not in allowed:
            yield ConfigProblem(name, f"{name} {describe_choice(text, allowed)}")


DRIVER: Final = ConfigDriver(
    name="sriovnetwork.k8snetworkplumbingwg.io",
    project="dra-driver-sriov",
    commits=("ca70b092", "79d4d017", "00b3a8a3", "cd9404f"),
    api_versions=("sriovnetwork.k8snetworkplumbingwg.io/v1alpha1",),
    kinds=(
        ConfigKind(
            name="VfConfig",
            shape=_VfConfig,
            find_refusals=_refused_link,
            find_gates=_newer_link,
        ),
    ),
    classes={"sriovnetwork.k8snetworkplumbingwg.io": ()},
)
