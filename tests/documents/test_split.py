"""Where documents begin and end."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drawbridge.documents.split import split_documents
from tests.tables import every_row, load_cases

CASES = Path(__file__).parent / "cases"


@every_row("case", load_cases(CASES / "split.yaml"), ids=lambda case: case["name"])
def test_documents_are_split_at_their_boundaries(case: dict[str, Any]) -> None:
    data = case["text"].encode()
    chunks = list(split_documents(data))
    assert [data[chunk.start : chunk.end].decode() for chunk in chunks] == case["pieces"]
    blank = [at for at, chunk in enumerate(chunks) if chunk.blank]
    assert blank == case.get("blank", [])


SNIPPETS = st.sampled_from(
    ["---", "...", "\n", "\r\n", "\r", " ", "#", "a: 1", "{", "}", "[", "]", '"', ",", ":", "\\"]
) | st.sampled_from(["\x85", "\u2028", "\ufeff", "%YAML 1.1", '{"a": 1}', "é"])


@given(st.lists(SNIPPETS).map(lambda parts: "".join(parts).encode()) | st.binary())
def test_the_chunks_together_are_the_input(data: bytes) -> None:
    chunks = list(split_documents(data))
    assert b"".join(data[chunk.start : chunk.end] for chunk in chunks) == data
    assert all(chunk.start < chunk.end for chunk in chunks)
