"""Reports the custom kinds whose fields a translation could not check, each once."""

from collections.abc import Iterable, Iterator, Mapping

from cli.translation.edited_manifests import EditResult
from drawbridge.config.policy import apply_policies
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.values import as_mapping
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.definitions import DEFINITION
from drawbridge.translate.manifests.codes import SCHEMA_UNKNOWN
from drawbridge.translate.manifests.custom_fields import (
    is_checked,
    is_custom,
    name_definition,
)
from drawbridge.translate.manifests.workloads import group_kind


def report_unchecked_kinds(
    result: EditResult,
    context: TranslationContext,
    unread: Mapping[str, Iterable[LocatedFinding]],
) -> Iterator[LocatedFinding]:
    """Yield a finding at the first translated object of each custom kind without a schema.

    `unread` says by the name of a definition why the cluster did not give it.
    """
    told = set[tuple[str, str]]()
    for edited in result.objects:
        document = edited.document
        kind = group_kind(as_mapping(document.value))
        if not edited.changed or kind in told or not is_custom(kind):
            continue
        if is_checked(document.value, context.definitions):
            continue
        told.add(kind)
        yield from unread.get(name_definition(kind), ())
        version = as_mapping(document.value).get("apiVersion")
        message = (
            f"no {DEFINITION} of {kind[1]} {version} was read, so it is not known whether the API"
            " server keeps the claims"
        )
        finding = SCHEMA_UNKNOWN.at("spec", message, object=document.name)
        for each in apply_policies((finding,), context.configuration.findings):
            yield document.locate_finding(each)
