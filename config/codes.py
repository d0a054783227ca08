"""The findings of this package."""

from dra.finding import Code, Codes, Severity

FIELD_UNAVAILABLE = Code(
    name="FieldUnavailable",
    severity=Severity.ERROR,
    text="A field or value of the Configuration belongs to a feature this version does not have.",
    example="placement: placement bridge is not available in this version",
    remedy="Take the field out; `drawbridge config schema` shows what is available.",
)
SELECTOR_CONTRADICTORY = Code(
    name="SelectorContradictory",
    severity=Severity.ERROR,
    text="A label selector compares with values where none belong, or without where some do.",
    example="scope.namespaceSelector.matchExpressions[0]: In needs at least one of values",
    remedy="Give In and NotIn at least one value; give Exists and DoesNotExist none.",
)
WITHOUT_EFFECT = Code(
    name="EntryWithoutEffect",
    severity=Severity.ERROR,
    text="An entry of the Configuration says nothing, or in part nothing, that changes anything.",
    example="compatibility[0]: there is neither compatibleOnlyWith nor groups",
    remedy="Complete the entry or take it out.",
)
EXPRESSION_WRONG = Code(
    name="ConfigurationExpressionWrong",
    severity=Severity.ERROR,
    text="A CEL expression in the Configuration does not compile.",
    example="compatibility[0].selector: selector, line 1, column 8: undefined field 'drivr'",
    remedy="Correct the expression; it is about `device`, as in a DeviceClass.",
)
NOT_ONE = Code(
    name="ConfigurationNotOne",
    severity=Severity.ERROR,
    text="A file with the Configuration holds no document, or more than one.",
    example="config.yaml: there are 2 documents in the file, expected one Configuration",
    remedy="Leave exactly one document in the file.",
)

CODES = Codes(
    "config", [FIELD_UNAVAILABLE, SELECTOR_CONTRADICTORY, WITHOUT_EFFECT, EXPRESSION_WRONG, NOT_ONE]
)
