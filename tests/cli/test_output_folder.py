"""`--output-dir` writes whole files below one folder, and no input unless that is asked."""

import fcntl
import os
import threading
from functools import partial
from pathlib import Path

import pytest

from cli.translation import output_folder
from tests.cli.running import command
from tests.tables import read_yaml, read_yaml_documents

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c} # kept\n"


run = partial(command, "translate")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "pod.yaml").write_text(POD)
    (folder / "sub" / "other.yaml").write_text(OTHER)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_files_keep_their_names_and_templates_get_a_file(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, err = run("-f", str(source), "--output-dir", str(out))
    assert (code, err) == (0, f"3 files written to {out}\n")
    assert names(out) == ["drawbridge-templates.yaml", "pod.yaml", "sub/other.yaml"]
    assert (out / "sub" / "other.yaml").read_text() == OTHER
    template = read_yaml((out / "drawbridge-templates.yaml").read_text())
    assert template["metadata"]["name"] in (out / "pod.yaml").read_text()
    assert "1 translated; 1 claim template added" in text
    assert (source / "pod.yaml").read_text() == POD


def test_a_second_run_on_the_output_changes_nothing(source: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run("-f", str(source), "--output-dir", str(first))
    run("-f", str(first), "--output-dir", str(second))
    assert names(first) == names(second)
    for name in names(first):
        assert (first / name).read_bytes() == (second / name).read_bytes()


@pytest.mark.parametrize("name", ["drawbridge-templates.yaml", "mine.yaml"])
def test_undo_in_place_leaves_no_templates_that_translate_has_added(
    source: Path, name: str
) -> None:
    words = ("-f", str(source), "--output-dir", str(source), "--overwrite")
    run(*words)
    templates = source / name
    (source / "drawbridge-templates.yaml").rename(templates)
    code, _, err = command("undo", *words)
    is_ours = name == "drawbridge-templates.yaml"
    what = "is deleted" if is_ours else "can be deleted"
    assert code == 0
    assert f"{templates} {what}: nothing in the input uses its templates\n" in err
    assert names(source) == sorted(["pod.yaml", "sub/other.yaml", *([] if is_ours else [name])])
    assert (source / "pod.yaml").read_text() == POD


def test_undo_of_single_files_deletes_no_templates_that_others_may_use(source: Path) -> None:
    run("-f", str(source), "--output-dir", str(source), "--overwrite")
    templates = source / "drawbridge-templates.yaml"
    inputs = ("-f", str(source / "pod.yaml"), "-f", str(templates))
    err = command("undo", *inputs, "--output-dir", str(source), "--overwrite").err
    assert f"{templates} can be deleted: " in err
    assert templates.exists()


def test_undo_into_another_folder_deletes_nothing(source: Path, tmp_path: Path) -> None:
    run("-f", str(source), "--output-dir", str(source), "--overwrite")
    before = names(source)
    err = command("undo", "-f", str(source), "--output-dir", str(tmp_path / "out")).err
    assert "delete" not in err
    assert names(source) == before


def test_templates_of_files_that_were_translated_before_stay(tmp_path: Path) -> None:
    out, templates = tmp_path / "out", tmp_path / "out" / "drawbridge-templates.yaml"
    for number in (1, 2, 1, 2):
        file = tmp_path / f"pod-{number}.yaml"
        file.write_text(POD.replace("gpu: 1", f"gpu: {number}"))
        assert run("-f", str(file), "--output-dir", str(out))[0] == 0
    names_of_templates = [
        each["metadata"]["name"] for each in read_yaml_documents(templates.read_text())
    ]
    assert len(names_of_templates) == len(set(names_of_templates)) == 2
    for number, name in enumerate(names_of_templates, start=1):
        assert name in (out / f"pod-{number}.yaml").read_text()


def test_an_input_is_overwritten_only_if_that_is_asked(source: Path) -> None:
    words = ("-f", str(source), "--output-dir", str(source))
    code, out, err = run(*words)
    assert code == 2
    assert "is an input of this command [FileNotWritten]" in out
    assert err == f"0 files written to {source}\n"
    assert (source / "pod.yaml").read_text() == POD
    assert run(*words, "--overwrite")[0] == 0
    assert "resourceClaims" in (source / "pod.yaml").read_text()


def test_new_templates_are_added_to_those_of_an_earlier_run(source: Path) -> None:
    words = ("-f", str(source), "--output-dir", str(source), "--overwrite")
    run(*words)
    (source / "two.yaml").write_text(POD.replace("gpu: 1", "gpu: 2").replace("name: p", "name: q"))
    run(*words)
    templates = read_yaml_documents((source / "drawbridge-templates.yaml").read_text())
    assert len({each["metadata"]["name"] for each in templates}) == 2


def test_commands_that_run_at_the_same_time_add_their_templates_one_after_the_other(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "two.yaml").write_text(POD.replace("gpu: 1", "gpu: 2").replace("name: p", "name: q"))
    out = tmp_path / "out"
    read = vars(output_folder)["_with_earlier"]
    others: list[threading.Thread] = []

    def read_meanwhile(path: Path, data: bytes) -> bytes:
        earlier: bytes = read(path, data)
        if not others:
            # Another command begins between the read and the write of this one.
            words = ("-f", str(source / "two.yaml"), "--output-dir", str(out))
            others.append(threading.Thread(target=run, args=words))
            others[0].start()
            descriptor = os.open(out, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(descriptor)
        return earlier

    monkeypatch.setattr(output_folder, "_with_earlier", read_meanwhile)
    run("-f", str(source / "pod.yaml"), "--output-dir", str(out))
    others[0].join()
    assert len([*read_yaml_documents((out / "drawbridge-templates.yaml").read_text())]) == 2


def test_two_inputs_with_one_name_are_refused(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "pod.yaml"
    other.write_text(OTHER)
    out = tmp_path / "out"
    code, text, _ = run("-f", str(source), "-f", str(other), "--output-dir", str(out))
    assert code == 2
    assert "would both be written to pod.yaml [FileNotWritten]" in text
    assert not out.exists()


def test_a_link_does_not_lead_out_of_the_folder(source: Path, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "sub").symlink_to(elsewhere)
    code, text, _ = run("-f", str(source), "--output-dir", str(out))
    assert code == 2
    assert "sub/other.yaml is outside the folder because of a link" in text
    assert names(elsewhere) == names(out) == []


def test_a_linked_file_is_replaced_and_its_target_stays(source: Path, tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept.yaml"
    out.mkdir()
    kept.write_text("kept")
    (out / "pod.yaml").symlink_to(kept)
    assert run("-f", str(source), "--output-dir", str(out))[0] == 0
    assert kept.read_text() == "kept"
    assert not (out / "pod.yaml").is_symlink()


def test_standard_input_and_data_can_be_written(tmp_path: Path) -> None:
    words = ("-f", "-", "--output-dir", str(tmp_path), "-o", "json", "-q")
    code, out, err = run(*words, stdin=OTHER)
    assert (code, err, out[0]) == (0, "", "{")
    assert names(tmp_path) == ["stdin.yaml"]


def test_a_folder_that_cannot_be_written_is_reported(source: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, text, _ = run("-f", str(source), "--output-dir", str(blocked))
    assert code == 2
    assert "[FileNotWritten]" in text


def test_a_diff_names_the_files_that_are_written(source: Path) -> None:
    """Below one folder; a file of templates from an earlier run is changed, and no other new."""

    def changed() -> list[str]:
        lines = run("-f", str(source), "-o", "diff", "-q").out.splitlines()
        paths = [line.split("/", 1)[1] for line in lines if line.startswith(("--- ", "+++ "))]
        return [
            Path(f"/{each}").relative_to(source).name if each != "dev/null" else ""
            for each in paths
        ]

    assert changed() == ["pod.yaml", "pod.yaml", "", "drawbridge-templates.yaml"]
    run("-f", str(source), "--output-dir", str(source), "--overwrite")
    assert changed() == []
    (source / "pod.yaml").write_text(POD.replace("gpu: 1", "gpu: 2"))
    assert changed() == [*["drawbridge-templates.yaml"] * 2, *["pod.yaml"] * 2]
