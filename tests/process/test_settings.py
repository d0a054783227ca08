"""The configuration is reloaded when its file changes, and an invalid file is not used."""

import asyncio
from pathlib import Path

import pytest

from drawbridge.agreement.codes import ACCEPTED_NAMES
from drawbridge.config.model import Configuration
from drawbridge.process import metrics
from drawbridge.process.settings import Settings

HEAD = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
RENAMED = f"{HEAD}legacy: {{renames: {{example.com/gpu: nvidia.com/gpu}}}}\n"


def good() -> float | None:
    return metrics.REGISTRY.get_sample_value("drawbridge_configuration_good")


def test_without_a_file_the_defaults_are_used() -> None:
    settings = Settings(known=ACCEPTED_NAMES)
    assert settings.load() == ()
    assert settings.current == Configuration()


def test_a_changed_file_is_used_and_passed_to_listeners(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD)
    settings = Settings(str(file), known=ACCEPTED_NAMES)
    received: list[Configuration] = []
    settings.subscribe(received.append)
    assert settings.load() == ()
    file.write_text(RENAMED)
    assert settings.reload() == ()
    assert settings.reload() == ()
    assert dict(settings.current.legacy.renames) == {"example.com/gpu": "nvidia.com/gpu"}
    assert received == [Configuration(), settings.current]


def test_a_mount_that_swaps_its_symlinks_is_reloaded(tmp_path: Path) -> None:
    """The files of a ConfigMap are symlinks to a directory that changes with each update."""
    for name, text in (("..1", HEAD), ("..2", RENAMED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    settings = Settings(str(tmp_path / "config.yaml"), known=ACCEPTED_NAMES)
    assert settings.load() == ()
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    assert settings.reload() == ()
    assert settings.current.legacy.renames


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("a: [", "YamlSyntax", "a[0]"),
        ("", "ConfigurationNotOne", ""),
        (f"{HEAD}---\n{HEAD}", "ConfigurationNotOne", ""),
        (f"{HEAD}placment: native\n", "FieldUnknown", "placment"),
        (f"{HEAD}placement: bridge\n", "OwnedPoolsMissing", "ownedPools"),
        (f"{HEAD}quotas: []\n", "FieldUnavailable", "quotas"),
    ],
)
def test_an_invalid_file_is_reported_and_the_last_valid_one_stays_in_use(
    text: str, code: str, path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(RENAMED)
    settings = Settings(str(file), known=ACCEPTED_NAMES)
    assert settings.load() == ()
    assert good() == 1
    before = settings.current
    file.write_text(text)
    findings = settings.reload()
    assert any(code in each.code and each.path == path and each.remedy for each in findings)
    assert settings.current is before
    assert good() == 0
    assert code in str(caplog.records[-1].fields)  # type: ignore[attr-defined]
    caplog.clear()
    assert settings.reload() == ()
    assert not caplog.records  # logged once
    file.write_text(RENAMED)
    assert settings.reload() == ()
    assert good() == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path / "nowhere.yaml"), known=ACCEPTED_NAMES)
    (finding,) = settings.load()
    assert "nowhere.yaml" in finding.message
    assert "--config" in finding.remedy


def test_a_deleted_file_keeps_the_loaded_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(RENAMED)
    settings = Settings(str(file), known=ACCEPTED_NAMES)
    settings.load()
    file.unlink()
    assert settings.reload()
    assert settings.current.legacy.renames


def test_the_file_is_polled_while_the_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception does not end the polling."""
    file = tmp_path / "config.yaml"
    file.write_text(HEAD)
    settings = Settings(str(file), known=ACCEPTED_NAMES)
    settings.load()

    async def play() -> None:
        changed, failed = asyncio.Event(), asyncio.Event()
        settings.subscribe(lambda _: changed.set())
        reload = settings.reload

        def once() -> None:
            monkeypatch.setattr(settings, "reload", reload)
            failed.set()
            raise RuntimeError("unexpected")

        monkeypatch.setattr(settings, "reload", once)
        running = asyncio.create_task(settings.run(interval=0))
        await failed.wait()
        file.write_text(RENAMED)
        await changed.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(play(), 30))
    assert settings.current.legacy.renames
    assert any(record.exc_info for record in caplog.records)
