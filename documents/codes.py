"""The findings of this package: why a document could not be read, or an edit not be written."""

from dra.finding import Code, Codes, Severity

FILE_UNREADABLE = Code(
    name="FileUnreadable",
    severity=Severity.ERROR,
    text="A file or folder that was named cannot be read, or has no manifests in it.",
    example="pods.yaml: there is no such file or directory",
    remedy="Name a file that can be read, a folder with .yaml, .yml or .json files, or -.",
)
NOT_UTF8 = Code(
    name="NotUtf8",
    severity=Severity.ERROR,
    text="The bytes are not UTF-8, the one encoding of Kubernetes manifests.",
    example="line 3: byte 0xff is not UTF-8",
    remedy="Save the file as UTF-8.",
)
YAML_SYNTAX = Code(
    name="YamlSyntax",
    severity=Severity.ERROR,
    text="The document is not YAML. Other documents of the file are read all the same.",
    example="line 7, column 3: mapping values are not allowed in this context",
    remedy="Correct the YAML at that place; often it is the indentation or a missing quote.",
)
JSON_SYNTAX = Code(
    name="JsonSyntax",
    severity=Severity.ERROR,
    text="The document is not JSON. Other documents of the file are read all the same.",
    example="line 4, column 12: trailing comma in array",
    remedy="Correct the JSON at that place.",
)
DOCUMENT_TOO_LARGE = Code(
    name="DocumentTooLarge",
    severity=Severity.ERROR,
    text="A YAML document, or one object in JSON, is over 16 MiB; no API server takes as much.",
    example="the document has 17825792 bytes, at most 16777216 are read",
    remedy="Split the document; a long list can be given as JSON, which is read item by item.",
)
NESTED_TOO_DEEP = Code(
    name="NestedTooDeep",
    severity=Severity.ERROR,
    text="Objects and lists stand in each other more than 100 deep.",
    example="more than 100 levels of objects and lists",
    remedy="Check what made the file; no Kubernetes object is nested like this.",
)
TOO_MANY_VALUES = Code(
    name="TooManyValues",
    severity=Severity.ERROR,
    text="The document has more values than are read, its aliases (`*name`) written out.",
    example="the aliases of this document stand for more than 100000 values",
    remedy="Split the document, or write fewer values through aliases.",
)
DUPLICATE_KEY = Code(
    name="DuplicateKey",
    severity=Severity.ERROR,
    text="A key is given twice in one object, and only one of the two values can count.",
    example="nvidia.com/gpu is given on line 12 and again on line 14",
    remedy="Remove one of the two.",
)
KEY_NOT_TEXT = Code(
    name="KeyNotText",
    severity=Severity.ERROR,
    text="A key of an object is null, a list or an object.",
    example="line 3: a key must be text, this one is null",
    remedy="Quote the key.",
)
TAG_UNKNOWN = Code(
    name="TagUnknown",
    severity=Severity.ERROR,
    text="A value carries a YAML tag that Kubernetes manifests have no use for.",
    example="line 3: the tag !vault is not known",
    remedy="Remove the tag, or render the file with the tool that understands it.",
)
VALUE_UNREADABLE = Code(
    name="ValueUnreadable",
    severity=Severity.ERROR,
    text="A value does not mean what its tag says, or cannot be said in JSON.",
    example="line 5: .nan cannot be said in JSON",
    remedy="Quote the value if it is text, else correct it.",
)
ALIAS_UNKNOWN = Code(
    name="AliasUnknown",
    severity=Severity.ERROR,
    text="An alias (`*name`) refers to no anchor (`&name`) before it in the same document.",
    example="line 9: there is no anchor &limits before this alias",
    remedy="Write the value out, or set the anchor in the same document.",
)
MERGE_WRONG = Code(
    name="MergeWrong",
    severity=Severity.ERROR,
    text="A merge key (`<<`) is given something else than an object or a list of objects.",
    example="line 6: << needs an object or a list of objects",
    remedy="Give `<<` an alias of an object.",
)
TEMPLATE_NOT_RENDERED = Code(
    name="TemplateNotRendered",
    severity=Severity.ERROR,
    text="The document is a template (Helm, Jinja or the like), not yet a manifest.",
    example="line 4 has {{ .Values.name }}",
    remedy="Render it first, for instance with `helm template`, and give the result.",
)
PLACEHOLDER_NOT_FILLED = Code(
    name="PlaceholderNotFilled",
    severity=Severity.ERROR,
    text="A placeholder stands where the document's meaning depends on what will replace it.",
    example="metadata.name is ${NAME}",
    remedy="Fill it in first, for instance with `envsubst` or `kustomize build`.",
)
PATCH_NOT_OBJECT = Code(
    name="PatchNotObject",
    severity=Severity.ERROR,
    text="The document is a patch (JSON patch or strategic merge patch), not an object.",
    example="spec.template.spec.containers[0] has $patch: delete",
    remedy="Apply it first, for instance with `kustomize build`, and give the result.",
)
NOT_AN_OBJECT = Code(
    name="NotAnObject",
    severity=Severity.ERROR,
    text="The document is no Kubernetes object: it lacks apiVersion or kind, or is a lone value.",
    example="the document has no kind; it looks like the values of a Helm chart",
    remedy="Give apiVersion and kind, or leave the file out.",
)
MORE_UNREADABLE = Code(
    name="MoreUnreadable",
    severity=Severity.ERROR,
    text="A file has over 1000 documents that cannot be read; the rest is not looked at.",
    example="1000 documents before this one could not be read; what follows is left as it is",
    remedy="Check that this is the right file; correct the first findings and try again.",
)
EDIT_REFUSED = Code(
    name="EditRefused",
    severity=Severity.ERROR,
    text="A change cannot be written into the text without changing something else as well.",
    example="the values at this place are shared with others through the anchor &limits",
    remedy="Write the values out in place of anchors and aliases, in ordinary block style.",
)

CODES = Codes(
    "documents",
    [
        FILE_UNREADABLE,
        NOT_UTF8,
        YAML_SYNTAX,
        JSON_SYNTAX,
        DOCUMENT_TOO_LARGE,
        NESTED_TOO_DEEP,
        TOO_MANY_VALUES,
        DUPLICATE_KEY,
        KEY_NOT_TEXT,
        TAG_UNKNOWN,
        VALUE_UNREADABLE,
        ALIAS_UNKNOWN,
        MERGE_WRONG,
        TEMPLATE_NOT_RENDERED,
        PLACEHOLDER_NOT_FILLED,
        PATCH_NOT_OBJECT,
        NOT_AN_OBJECT,
        MORE_UNREADABLE,
        EDIT_REFUSED,
    ],
)
