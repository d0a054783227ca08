"""Checks DeviceTaintRules: whom a rule selects that selects everybody, or nobody."""

from collections.abc import Iterable, Iterator

from drawbridge.dra.taints import EXCLUDING, KIND, DeviceTaintRule
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes

_EVICTING = "NoExecute"


def judge_taint_rules(rules: Iterable[DeviceTaintRule]) -> Iterator[Finding]:
    """Yield a finding for each rule that excludes every device without saying so, or none."""
    for rule in rules:
        about, taint = f"{KIND}/{rule.name}", rule.taint
        if rule.selector is None:
            message = (
                f"rule {rule.name} has no deviceSelector, so it taints no device; kube-scheduler"
                " before 1.37.1 takes every device as tainted"
            )
            yield codes.TAINT_RULE_SELECTS_NOTHING.at("spec", message, object=about)
        elif rule.selects_all and taint.effect in EXCLUDING and not rule.says_all:
            what = "no pod gets a device"
            if taint.effect == _EVICTING:
                what = "every pod with devices is evicted, and no pod gets one"
            message = (
                f"rule {rule.name} selects every device of every driver with {taint.key}:"
                f"{taint.effect}: {what}, except pods that tolerate it"
            )
            yield codes.TAINT_RULE_SELECTS_ALL.at("spec.deviceSelector", message, object=about)
