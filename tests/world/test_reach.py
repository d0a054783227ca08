"""The notes of planted mistakes are texts of the source, and tell which seeds reach them."""

import builtins
from unittest import mock

from e2e.mutations import ROOT, Mutation, Note
from tests.world.reach import Recorder, list_files, list_rows, write_notes

ROWS = (
    Mutation("a", "a.py", "b or c", "b", (Note("return b or c", "return noted(not b) or c"),)),
    Mutation("b", "b.py", "0", "1", (Note("d = 1", "noted(False); d = 1", "a.py"),)),
)
TEXT = "def f(b, c):\n    d = 1\n    return b or c\n"


def test_notes_of_several_mistakes_are_in_one_text() -> None:
    texts = write_notes({"a.py": TEXT}, ROWS)
    assert list_files(ROWS) == {"a.py"}
    assert texts["a.py"].splitlines()[1:] == [
        "    noted('b', False); d = 1",
        "    return noted('a', not b) or c",
    ]


def test_a_note_tells_which_mistakes_were_reached_and_would_decide_differently() -> None:
    recorder, names = Recorder(), dict[str, object]()
    exec(write_notes({"a.py": TEXT}, ROWS)["a.py"], names)  # noqa: S102  # the text above
    function = names["f"]
    assert callable(function)
    with mock.patch.object(builtins, "noted", recorder, create=True):
        assert function(b=0, c=1)
    assert (recorder.reached, recorder.differ) == ({"a", "b"}, {"a"})


def test_the_notes_of_all_rows_can_be_written() -> None:
    rows = list_rows()
    files = {name: (ROOT / name).read_text(encoding="utf-8") for name in list_files(rows)}
    texts = write_notes(files, rows)
    for name, text in texts.items():
        compile(text, name, "exec")
    assert all(f"noted({row.name!r}, " in "".join(texts.values()) for row in rows)
