"""Kubernetes' own code, built to answer questions. Its Go sources decide nothing themselves.

A scenario is one JSON object a line, in objects as the API server stores them (defaults filled in):

    name, seed        to find it again
    version, gates    defaults of the gates by Kubernetes version (1.37 if left out), then overrides
    variant           stable, incubating or experimental; left out, as Kubernetes chooses by gates
    nodes, slices, classes, rules (DeviceTaintRules)
    claims            to allocate, together and in this order, as those of one pod
    allocated         claims whose status holds devices
    seconds           limit of the search on one node, 5 if left out
    changes           for `rounds`: before each, `{"add": claim}` or `{"remove": "namespace/name"}`

`oracle allocate` answers each line with one: per node a verdict (`allocated` with the allocations,
`none`, `node` for an error of this node only, `error` for the whole pod, `timeout`, `panic`), the
message, seconds, and steps (calls of the search's recursive function). `oracle rounds` answers once
per change and tells seconds only; `oracle evaluate` evaluates one expression on one device for
`e2e.checker`; `oracle cel` and `oracle bench` are about expressions alone.
"""
