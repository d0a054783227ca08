"""Finding codes of this package: unreadable documents, and edits that cannot be written."""

from drawbridge.finding import Codes

CODES = Codes()

FILE_UNREADABLE = CODES.define("FileUnreadable")
NOT_UTF8 = CODES.define("NotUtf8")
YAML_SYNTAX = CODES.define("YamlSyntax")
JSON_SYNTAX = CODES.define("JsonSyntax")
DOCUMENT_TOO_LARGE = CODES.define("DocumentTooLarge")
NESTED_TOO_DEEP = CODES.define("NestedTooDeep")
TOO_MANY_VALUES = CODES.define("TooManyValues")
DUPLICATE_KEY = CODES.define("DuplicateKey")
KEY_NOT_TEXT = CODES.define("KeyNotText")
TAG_UNKNOWN = CODES.define("TagUnknown")
VALUE_UNREADABLE = CODES.define("ValueUnreadable")
ALIAS_UNKNOWN = CODES.define("AliasUnknown")
MERGE_WRONG = CODES.define("MergeWrong")
TEMPLATE_NOT_RENDERED = CODES.define("TemplateNotRendered")
PARAMETER_NOT_QUOTED = CODES.define("ParameterNotQuoted")
PLACEHOLDER_NOT_FILLED = CODES.define("PlaceholderNotFilled")
PATCH_NOT_OBJECT = CODES.define("PatchNotObject")
NOT_AN_OBJECT = CODES.define("NotAnObject")
LIST_IN_LIST = CODES.define("ListInList")
MORE_UNREADABLE = CODES.define("MoreUnreadable")
EDIT_REFUSED = CODES.define("EditRefused")
