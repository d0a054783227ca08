"""Finding codes of this package: unreadable documents, and edits that cannot be written."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.READ)

FILE_UNREADABLE = CODES.define(
    "FileUnreadable",
    Severity.ERROR,
    text="A file or folder that was passed cannot be read, or contains no manifests.",
    example="pods.yaml: no such file or directory",
    remedy=(
        "Pass a readable file, a folder with .yaml, .yml or .json files, or - for standard input."
    ),
)
NOT_UTF8 = CODES.define(
    "NotUtf8",
    Severity.ERROR,
    text="The file is not encoded in UTF-8, the only encoding of Kubernetes manifests.",
    example="line 3: byte 0xff is not UTF-8",
    remedy="Save the file as UTF-8.",
)
YAML_SYNTAX = CODES.define(
    "YamlSyntax",
    Severity.ERROR,
    text="The document is not valid YAML. The other documents of the file are still read.",
    example="line 7, column 3: mapping values are not allowed in this context",
    remedy="Correct the YAML at this position. Common causes are indentation and a missing quote.",
)
JSON_SYNTAX = CODES.define(
    "JsonSyntax",
    Severity.ERROR,
    text="The document is not valid JSON. The other documents of the file are still read.",
    example="line 4, column 12: trailing comma in array",
    remedy="Correct the JSON at this position.",
)
DOCUMENT_TOO_LARGE = CODES.define(
    "DocumentTooLarge",
    Severity.ERROR,
    text=(
        "A YAML document, or one object in JSON, is larger than 16 MiB. No API server accepts"
        " an object of this size."
    ),
    example="the document has 17825792 bytes, but at most 16777216 are supported",
    remedy="Split the document. A long list can be passed as JSON, which is read item by item.",
)
NESTED_TOO_DEEP = CODES.define(
    "NestedTooDeep",
    Severity.ERROR,
    text="Objects and lists are nested more than 100 levels deep.",
    example="more than 100 levels of objects and lists",
    remedy="Check the tool that generated the file. No Kubernetes object is nested this deeply.",
)
TOO_MANY_VALUES = CODES.define(
    "TooManyValues",
    Severity.ERROR,
    text="The document has too many values after its aliases (`*name`) are expanded.",
    example="the aliases of this document expand to more than 100000 values",
    remedy="Split the document, or use fewer aliases.",
)
DUPLICATE_KEY = CODES.define(
    "DuplicateKey",
    Severity.ERROR,
    text="An object contains the same key twice, and only one of the values takes effect.",
    example="line 14: duplicate key nvidia.com/gpu, first on line 12",
    remedy="Remove one of the two keys.",
)
KEY_NOT_TEXT = CODES.define(
    "KeyNotText",
    Severity.ERROR,
    text="A key of an object is null, a list or an object.",
    example="line 3: a key must be text, but this key is null",
    remedy="Quote the key.",
)
TAG_UNKNOWN = CODES.define(
    "TagUnknown",
    Severity.ERROR,
    text="A value has a YAML tag that Kubernetes manifests do not use.",
    example="line 3: unknown tag !vault",
    remedy="Remove the tag, or render the file with the tool that defines it.",
)
VALUE_UNREADABLE = CODES.define(
    "ValueUnreadable",
    Severity.ERROR,
    text="A value does not match its YAML tag, or JSON cannot represent it.",
    example="line 5: JSON cannot represent .nan",
    remedy="Quote the value if it is text. Otherwise correct it.",
)
ALIAS_UNKNOWN = CODES.define(
    "AliasUnknown",
    Severity.ERROR,
    text=(
        "An alias (`*name`) refers to an anchor (`&name`) that does not exist before it in "
        "the same document."
    ),
    example="line 9: there is no anchor &limits before this alias",
    remedy="Write out the value, or define the anchor in the same document.",
)
MERGE_WRONG = CODES.define(
    "MergeWrong",
    Severity.ERROR,
    text="The value of a merge key (`<<`) is not an object or a list of objects.",
    example="line 6: << requires an object or a list of objects",
    remedy="Use an alias of an object as the value of `<<`.",
)
TEMPLATE_NOT_RENDERED = CODES.define(
    "TemplateNotRendered",
    Severity.ERROR,
    text="The document is a template (Helm, Jinja or similar) that has not been rendered.",
    example="line 4: {{ .Values.name }} is a Helm template",
    remedy="Render the template first, for example with `helm template`, and pass the output.",
)
PARAMETER_NOT_QUOTED = CODES.define(
    "ParameterNotQuoted",
    Severity.ERROR,
    text="A parameter of a workflow engine is not quoted, so the document is not valid YAML.",
    example="line 9: {{inputs.parameters.gpus}} is an Argo parameter",
    remedy="Put the parameter in quotes.",
)
PLACEHOLDER_NOT_FILLED = CODES.define(
    "PlaceholderNotFilled",
    Severity.ERROR,
    text="A field that determines the meaning of the document contains a placeholder.",
    example="metadata.name is a placeholder: ${NAME}",
    remedy="Replace the placeholder first, for example with `envsubst` or `kustomize build`.",
)
PATCH_NOT_OBJECT = CODES.define(
    "PatchNotObject",
    Severity.ERROR,
    text="The document is a patch (JSON patch or strategic merge patch), not an object.",
    example="spec.template.spec.containers[0].$patch makes this document a strategic merge patch",
    remedy="Apply the patch first, for example with `kustomize build`, and pass the output.",
)
NOT_AN_OBJECT = CODES.define(
    "NotAnObject",
    Severity.ERROR,
    text=(
        "The document is not a Kubernetes object: apiVersion or kind is missing, or the "
        "document is a single value."
    ),
    example="the document has no kind; it looks like the values of a Helm chart",
    remedy="Add apiVersion and kind, or leave the file out.",
)
MORE_UNREADABLE = CODES.define(
    "MoreUnreadable",
    Severity.ERROR,
    text="A file has more than 1000 unreadable documents. The rest of the file is not checked.",
    example="1000 documents before this one could not be read; the rest of the file is not checked",
    remedy="Check that this is the right file. Correct the first findings and try again.",
)
EDIT_REFUSED = CODES.define(
    "EditRefused",
    Severity.ERROR,
    text="A change cannot be written to the file without changing other values.",
    example="other values share this one through the anchor &limits",
    remedy="Write the object in ordinary block style, without anchors and aliases.",
)
