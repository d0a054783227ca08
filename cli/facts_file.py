"""Facts in a file, as `drawbridge facts` writes them.

Apart from the command that counts them, because whoever only reads them can do without the judge
and CEL, which take longer to load than all of a translation.
"""

from cli.input_files import sources
from cli.streams import Streams
from documents.document import Document, Located, Source
from documents.read import documents
from facts import serialized
from facts.model import Facts


def given(name: str, streams: Streams, base: Facts | None = None) -> Facts | tuple[Located, ...]:
    """Read facts from a file; tables that it does not have are those of `base`."""
    found: list[Document] = []
    for source in sources([name], streams.stdin):
        if not isinstance(source, Source):
            return (source,)
        found += [each for each in documents(source) if not each.empty]
    if unread := tuple(located for each in found for located in each.findings):
        return unread
    value = found[0].value if len(found) == 1 else None
    facts = serialized.read(value, base)
    if isinstance(facts, Facts):
        return facts
    if len(found) != 1:
        return tuple(Located(each, name, 0, 0) for each in facts)
    return tuple(found[0].located(each) for each in facts)
