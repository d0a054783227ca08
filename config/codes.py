"""The finding codes of this package."""

from dra.finding import Activity, Code, Codes, Severity

FIELD_UNAVAILABLE = Code(
    name="FieldUnavailable",
    severity=Severity.ERROR,
    text="A field or value of the Configuration belongs to a feature this version does not have.",
    example="placement: placement bridge is not available in this version",
    remedy="Remove the field. `drawbridge config schema` shows the available fields.",
)
SELECTOR_CONTRADICTORY = Code(
    name="SelectorContradictory",
    severity=Severity.ERROR,
    text=(
        "A label selector requirement has values with an operator that takes none, or no values "
        "with an operator that needs them."
    ),
    example="scope.namespaceSelector.matchExpressions[0]: operator In needs at least one value",
    remedy="Set at least one value for In and NotIn, and no values for Exists and DoesNotExist.",
)
WITHOUT_EFFECT = Code(
    name="EntryWithoutEffect",
    severity=Severity.ERROR,
    text="An entry of the Configuration, or a part of it, has no effect.",
    example="compatibility[0]: must set compatibleOnlyWith or groups",
    remedy="Complete the entry or remove it.",
)
EXPRESSION_WRONG = Code(
    name="ConfigurationExpressionWrong",
    severity=Severity.ERROR,
    text="A CEL expression in the Configuration does not compile.",
    example="compatibility[0].selector: selector, line 1, column 8: undefined field 'drivr'",
    remedy="Correct the expression. Its variable is `device`, as in a DeviceClass.",
)
NOT_ONE = Code(
    name="ConfigurationNotOne",
    severity=Severity.ERROR,
    text="A configuration file contains no YAML document, or more than one.",
    example="config.yaml: found 2 documents in the file, expected one Configuration",
    remedy="Keep exactly one document in the file.",
)

CODES = Codes(
    "config",
    Activity.CONFIGURE,
    [FIELD_UNAVAILABLE, SELECTOR_CONTRADICTORY, WITHOUT_EFFECT, EXPRESSION_WRONG, NOT_ONE],
)
