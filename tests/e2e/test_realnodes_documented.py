"""The pages of the documentation that the rig of real nodes reads have what it runs."""

from drawbridge.agreement.owned_pools import FENCE
from e2e.realnodes import bridge, installation, release
from e2e.realnodes.documented import blocks, commands
from e2e.realnodes.product import ROOT
from tests.tables import read_yaml

PAGE = """# Installing

```console install
$ before
```

## Apply

Text.

```console cluster
$ kubectl apply -k .
$ for i in 0 1; do kubectl patch x \\
>   -p y; done
```

```yaml
resources:
  - base
```

## Later

```console cluster
$ after
```
"""


def test_the_commands_of_a_section_are_read_word_for_word() -> None:
    assert commands(PAGE, "Apply") == [
        "kubectl apply -k .",
        "for i in 0 1; do kubectl patch x \\\n  -p y; done",
    ]
    assert commands(PAGE, "Installing") == ["before"]
    assert commands(PAGE, "Absent") == []


def test_the_page_has_the_commands_that_the_installation_runs() -> None:
    page = installation.PAGE.read_text(encoding="utf-8")
    documented = commands(page, installation.INSTALL)
    assert installation.APPLY in documented
    assert installation.ROLLOUT in documented
    assert installation.REMOVAL in commands(page, installation.UNINSTALL)
    upgrade = commands(page, installation.UPGRADE)
    assert release.CHART in upgrade[0]
    assert upgrade[1] == installation.ROLLOUT
    assert release.ROLLBACK in page
    assert release.REMOVE in page


def test_the_blocks_of_a_language_below_a_heading_are_read() -> None:
    assert list(blocks(PAGE, "Apply", "yaml")) == [["resources:", "  - base"]]
    assert list(blocks(PAGE, "Later", "yaml")) == []


def test_images_take_the_place_of_the_placeholders_of_the_overlay() -> None:
    overlay = (ROOT / installation.OVERLAY).read_text(encoding="utf-8")
    for name in ("drawbridge", bridge.SCHEDULER):
        overlay = installation.name_image(overlay, name, f"r.test/{name}:v7")
    assert read_yaml(overlay)["images"] == [
        {"name": name, "newName": f"r.test/{name}", "newTag": "v7"}
        for name in ("drawbridge", bridge.SCHEDULER)
    ]


def test_the_page_of_bridge_placement_has_the_commands_that_the_rig_runs() -> None:
    page = bridge.PAGE.read_text(encoding="utf-8")
    *_, label, apply, rollout = commands(page, bridge.INSTALL)
    assert bridge.NODE.sub("a", label) == "kubectl label node a pool=bridge"
    assert (apply, rollout) == (installation.APPLY, installation.ROLLOUT)
    (fields,) = blocks(page, bridge.INSTALL, "yaml")
    overlay = read_yaml("\n".join(fields))
    assert not overlay.keys() & read_yaml((ROOT / installation.OVERLAY).read_text()).keys()
    taint, unlabel = commands(page, bridge.REMOVE)
    assert taint.endswith(f"{FENCE.key}-")
    assert unlabel.startswith("kubectl label nodes")
