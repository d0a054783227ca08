"""Declares Kubernetes' authorization functions, without implementations.

Device selectors have no authorizer, so no call can reach an implementation. They are declared
because Kubernetes' device environment declares them: a wrong call there is a wrong call of a known
function, and a call on a dynamic value compiles.
"""

from typing import Final

from drawbridge.cel.declare import CallEstimate, Function, Library, Overload, unimplemented
from drawbridge.cel.library import costs
from drawbridge.cel.types import BOOL, STRING, Type

_AUTHORIZER, _PATH, _GROUP, _RESOURCE, _DECISION = (
    Type("object", f"kubernetes.authorization.{name}")
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
_CHECK: Final = 350_000


def _function(name: str, *rows: tuple[str, tuple[Type, ...], Type]) -> Function:
    overloads = tuple(Overload(*row, unimplemented, member=True) for row in rows)
    return Function(name, overloads)


AUTHORIZATION: Final = Library(
    "kubernetes.authz",
    (
        _function("path", ("authorizer_path", (_AUTHORIZER, STRING), _PATH)),
        _function("group", ("authorizer_group", (_AUTHORIZER, STRING), _GROUP)),
        _function(
            "serviceAccount",
            ("authorizer_serviceaccount", (_AUTHORIZER, STRING, STRING), _AUTHORIZER),
        ),
        _function("resource", ("groupcheck_resource", (_GROUP, STRING), _RESOURCE)),
        _function("subresource", ("resourcecheck_subresource", (_RESOURCE, STRING), _RESOURCE)),
        _function("namespace", ("resourcecheck_namespace", (_RESOURCE, STRING), _RESOURCE)),
        _function("name", ("resourcecheck_name", (_RESOURCE, STRING), _RESOURCE)),
        Function(
            "check",
            _function(
                "check",
                ("pathcheck_check", (_PATH, STRING), _DECISION),
                ("resourcecheck_check", (_RESOURCE, STRING), _DECISION),
            ).overloads,
            cost=costs.constant(_CHECK),
            estimate=costs.fixed(CallEstimate(_CHECK)),
        ),
        _function("errored", ("decision_errored", (_DECISION,), BOOL)),
        _function("error", ("decision_error", (_DECISION,), STRING)),
        _function("allowed", ("decision_allowed", (_DECISION,), BOOL)),
        _function("reason", ("decision_reason", (_DECISION,), STRING)),
        _function("fieldSelector", ("authorizer_fieldselector", (_RESOURCE, STRING), _RESOURCE)),
        _function("labelSelector", ("authorizer_labelselector", (_RESOURCE, STRING), _RESOURCE)),
    ),
)
