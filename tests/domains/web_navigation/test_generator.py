"""Generated designs: levels, reproducibility, resuming, the shipped sets."""

import itertools

import numpy as np
import pytest
from click.testing import CliRunner

from a2perf.domains.web_navigation.commands import websites
from a2perf.domains.web_navigation.page.primitives import CATALOGUE
from a2perf.domains.web_navigation.sites import generator
from a2perf.domains.web_navigation.sites.designs import shipped_designs, shipped_record
from a2perf.domains.web_navigation.sites.website import build_site
from a2perf.domains.web_navigation.solver import solution_length, solve
from a2perf.storage import Journal
from tests.domains.web_navigation.sample_sites import SHOP, site_of

LEVELS = (1, 2, 3)


@pytest.fixture
def few_episodes(monkeypatch):
    monkeypatch.setattr(generator, "EPISODES", 200)
    monkeypatch.setattr(generator, "SCREENING_EPISODES", 50)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_keeps_its_rules_and_repeats_with_its_seed(level, few_episodes):
    found = list(generator.generate(level, 5, 4))
    assert found == list(generator.generate(level, 5, 4))
    assert found != list(generator.generate(level, 6, 4))
    rule = generator.LEVEL_RULES[level]
    for one in found:
        assert rule.success[0] <= one.success <= rule.success[1]
        assert rule.length[0] <= one.length <= rule.length[1]
        assert one.length == solution_length(one.design)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, few_episodes):
    whole = list(generator.generate(1, 5, 5))
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        list(itertools.islice(generator.generate(1, 5, 5, journal), 2))
    path.write_bytes(path.read_bytes() + b'{"candidate": 99')  # a line that a kill cut off
    with Journal(path) as journal:
        assert list(generator.generate(1, 5, 5, journal)) == whole


def test_the_random_agent_solves_what_needs_nothing_and_never_what_needs_much():
    random = np.random.default_rng(0)
    # one of ten rows submits, the others do nothing: 1 - 0.9^25 of the episodes
    assert generator.random_success(site_of("#none#"), random, 3000) == pytest.approx(1 - 0.9**25, abs=0.015)
    assert generator.random_success(site_of(*SHOP["action"]), random, 200) == 0.0


@pytest.mark.parametrize("level", LEVELS)
def test_shipped_sets_hold_1000_different_solvable_designs_of_their_level(level, repository):
    record, rule = shipped_record(level), generator.LEVEL_RULES[level]
    designs = shipped_designs(level)
    assert len(set(designs)) == len(designs) == 1000
    assert (record["level"], record["episodes"]) == (level, generator.EPISODES)
    assert record["length"] == [solution_length(design) for design in designs]
    assert all(rule.success[0] <= success <= rule.success[1] for success in record["success"])
    assert all(rule.length[0] <= length <= rule.length[1] for length in record["length"])
    page = (repository / "docs" / "environments" / "web_navigation.md").read_text()
    assert ("at least 8 %", "0.4 % to 4 %", "at most 0.05 % (1 of 2000)")[level - 1] in page
    assert ("| 2 to 3 |", "| 3 to 6 |", "| 7 to 18 |")[level - 1] in page
    random = np.random.default_rng(level)
    for design in designs:
        site = build_site.__wrapped__(design)
        assert len(solve(site, site.draw_profile(random))) == solution_length(design)


def test_levels_of_the_shipped_sets_lie_apart_and_cover_the_catalogue():
    easy, middle, hard = (shipped_record(level) for level in LEVELS)
    assert min(easy["success"]) > max(middle["success"])
    assert min(middle["success"]) > max(hard["success"])
    assert max(easy["length"]) < min(hard["length"])
    assert np.median(easy["length"]) < np.median(middle["length"]) < np.median(hard["length"])
    seen = {name for level in LEVELS for design in shipped_designs(level) for name, _ in design.parts}
    assert seen == set(CATALOGUE) - {"#none#"}


@pytest.mark.parametrize("level", LEVELS)
def test_a_fresh_measurement_agrees_with_the_shipped_one(level):
    record, designs = shipped_record(level), shipped_designs(level)
    random = np.random.default_rng(99)
    chosen = random.choice(1000, 12, replace=False)
    fresh = [generator.random_success(build_site(designs[one]), random, 150) for one in chosen]
    stated = [record["success"][one] for one in chosen]
    assert np.mean(fresh) == pytest.approx(np.mean(stated), abs=0.05)


def test_the_command_writes_sets_and_a_table(tmp_path, few_episodes):
    arguments = ["generate", "--count", "2", "--seed", "3", "--level", "1", "--level", "3", "--out", str(tmp_path)]
    result = CliRunner().invoke(websites, arguments)
    assert result.exit_code == 0, result.output
    assert "success min" in result.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "designs_01.json.gz",
        "designs_03.json.gz",
        "level_01_seed_3.jsonl",
        "level_03_seed_3.jsonl",
    }
    written = {name: (tmp_path / name).read_bytes() for name in names}
    again = CliRunner().invoke(websites, arguments)
    assert again.exit_code == 0
    assert (tmp_path / "designs_01.json.gz").read_bytes() == written["designs_01.json.gz"]
