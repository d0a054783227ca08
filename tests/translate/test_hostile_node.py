"""Facts and translations with one hostile node equal those without it, but for its own devices."""

import random

import pytest
from msgspec.structs import replace

from drawbridge.config.model import Placement
from drawbridge.dra.families import FAMILIES
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.thorough import drawn
from tests.translate import hostile_node, test_rows

CASES = [each for each in test_rows.CASES if each.get("world") and not each.get("keeps")]
PLUGINS = [name for family in FAMILIES for name in family.legacy_names]
CASES_OF_A_CLUSTER = 5


@pytest.mark.parametrize("placement", list(Placement))
def test_one_node_changes_nothing_for_the_devices_of_others(placement: Placement) -> None:
    reached = 0
    for seed in range(drawn(8, thorough=1000)):
        rng = random.Random(seed)
        cases = rng.sample(CASES, CASES_OF_A_CLUSTER)
        words = [word for case in cases[:2] for word in case["world"]]
        cluster = hostile_node.draw_cluster(words, rng)
        before = hostile_node.facts_of(cluster.objects)
        after = hostile_node.facts_of(hostile_node.add_hostile(cluster, rng, PLUGINS))
        tables = dict(hostile_node.list_tables(before))
        for table, rows in hostile_node.list_tables(after, before):
            assert rows == tables[table], (seed, table)
        reach = hostile_node.Reach(cluster.devices)
        for case in cases:
            configuration = replace(test_rows.configuration(case), placement=placement)
            without, beside = (
                reach.of(
                    translate(
                        test_rows.pod(case), make_context(configuration, facts), admin_access=True
                    )
                )
                for facts in (before, after)
            )
            if isinstance(without, list):  # else only the hostile node has such devices
                reached += 1
                assert beside == without, (seed, test_rows.name(case))
    assert reached > 10
