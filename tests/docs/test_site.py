"""The site holds all that is public, and needs no network; what is public is asked otherwise than by the build."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from a2perf import records
from a2perf.domains.registry import domains
from a2perf.metrics.registry import all_metrics
from docs.building import leaderboard, links, markdown, navigation
from docs.building.__main__ import sources


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the site, without pictures."""
    folder = tmp_path_factory.mktemp("site")
    os.environ["A2PERF_OFFLINE"] = "1"
    sources(folder, pictures=False)
    return folder


def read(site: Path, page: str) -> str:
    return (site / f"{page}.md").read_text(encoding="utf-8")


# --- nothing public is missing ----------------------------------------------------------------------------------------


def test_everything_that_a_shipped_gin_file_binds_is_on_the_page(site: Path, repository: Path) -> None:
    sections = dict(re.findall(r"\n## (\w+)\n(.*?)(?=\n## |\Z)", read(site, "reference/gin_parameters"), re.DOTALL))
    arguments = "".join(
        read(site, f"environments/{one.id}") for domain in domains().values() for one in domain.environments
    )
    files = [*(repository / "a2perf" / "domains").rglob("*.gin"), *repository.glob("templates/**/*.gin")]
    assert len(files) > 20
    bound = set()
    for path in files:
        bound |= set(re.findall(r"^([A-Za-z]\w*)\.(\w+) *=", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(bound) > 15
    for name, parameter in bound:
        of_environment = name == "create_domain" and f"| `{parameter}` |" in arguments
        assert f"| `{parameter}` |" in sections[name] or of_environment, f"{name}.{parameter}"


def test_every_metric_is_there_with_its_formula(site: Path) -> None:
    page = read(site, "reference/metrics")
    for name, metric in all_metrics().items():
        assert f"| `{name}` | {metric.label} |" in page
        assert markdown.cell(metric.formula).rstrip(".") in page
        assert markdown.cell(metric.needs) in page


def test_every_field_of_the_records_is_there_and_most_are_explained(site: Path) -> None:
    page = read(site, "reference/file_schemas")
    kinds = [kind for kind in vars(records).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    assert len(kinds) >= 12
    for kind in kinds:
        section = page.partition(f"### {kind.__name__}\n")[2].partition("\n##")[0]
        for field in kind.__struct_fields__:
            assert f"| `{field}` |" in section, f"{kind.__name__}.{field}"
    manifest = page.partition("### Manifest\n")[2].partition("\n##")[0]
    unexplained = [line for line in manifest.splitlines() if line.startswith("| `") and line.endswith("|  |")]
    assert unexplained == []
    assert "| `wall_s` | `float` | s |" in page


def test_every_id_task_and_data_file_is_there(site: Path) -> None:
    tasks, files = read(site, "environments/tasks"), read(site, "environments/data_files")
    for domain in domains().values():
        of_domain = read(site, f"environments/{domain.name}")
        for environment in domain.environments:
            page = read(site, f"environments/{environment.id}")
            assert page.startswith(f"# {environment.title}\n")
            assert "No picture: this build makes no pictures" in page
            assert f"| `{environment.entry_point}` |" in page
            assert all(f"`{alias}`" in page for alias in environment.aliases)
            for heading in ("Rewards", "Episode end", "Arguments", "Version history", "References"):
                text = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
                assert len(text.strip()) > 30, f"{environment.id}: {heading}"
            assert f"\n{environment.id}\n" in of_domain  # in its table of contents
        assert all(f"| `{task.name}` | `{task.env_id}` |" in tasks for task in domain.tasks)
        assert all(f"| `{asset.name}` |" in files and asset.licence in files for asset in domain.assets)


# --- pages and links --------------------------------------------------------------------------------------------------


def test_every_page_of_the_repository_stands_in_a_table_of_contents(site: Path, repository: Path) -> None:
    front = read(site, "index")
    assert "environments/quadruped_locomotion" in front
    for page in (path.relative_to(site) for path in site.rglob("*.md") if "_static" not in path.parts):
        listed = f"\n{page.with_suffix('')}\n" in front
        assert listed or page.parent.name == "commands" or page.name == "index.md" or navigation.is_environment(page), (
            page
        )
    with pytest.raises(ValueError, match="no table of contents names stray/page"):
        navigation.contents([Path("stray/page.md")])


# --- the whole site ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.group("sphinx")
def test_no_page_loads_anything_from_elsewhere_and_all_it_loads_is_there(built: Path) -> None:
    pages = sorted(path for path in built.rglob("*.html") if "_static/leaderboard" not in path.as_posix())
    assert len(pages) > 70
    for page in pages:  # `test_no_link_is_dead` follows these links as well
        tags = re.findall(
            r"<(?:script|img|video|source|iframe|audio|embed|object|link)\b[^>]*>", page.read_text("utf-8")
        )
        loaded = [tag for tag in tags if re.search(r'(?:src|poster|data|href)="', tag) and "canonical" not in tag]
        assert len(loaded) > 5
        assert [tag for tag in loaded if re.search(r'(?:src|poster|data|href)="(?!data:)[^"]*//', tag)] == [], page.name
    styles = "".join(path.read_text(encoding="utf-8") for path in built.rglob("*.css"))
    assert re.findall(r"url\(['\"]?(?:https?:)?//|@import", styles) == []


@pytest.mark.slow
def test_the_page_of_results_leads_to_a_leaderboard_of_all_of_them(tmp_path: Path, repository: Path) -> None:
    page, static = tmp_path / "results.html", tmp_path / "_static" / "leaderboard"
    leaderboard.write(page, static, tmp_path / "kept")
    assert links.check(tmp_path).dead == []
    assert 'href="_static/leaderboard/index.html"' in page.read_text(encoding="utf-8")
    board = (static / "leaderboard.csv").read_text(encoding="utf-8")
    recorded = {path.stem.partition("-")[0] for path in (repository / "results" / "recorded").glob("*/*.zip")}
    assert {name for name in recorded if name not in board} == set()


@pytest.mark.slow
@pytest.mark.group("sphinx")
def test_each_environment_has_a_moving_picture_that_loops(built: Path) -> None:
    from PIL import Image

    media = built / "_static" / "media"
    gallery = (built / "environments" / "index.html").read_text(encoding="utf-8")
    for domain in domains().values():
        for environment in domain.environments:
            page = (built / "environments" / f"{environment.id}.html").read_text(encoding="utf-8")
            (name,) = set(re.findall(r'<img src="\.\./_static/media/([^"]+\.webp)"', page))
            assert f'href="{environment.id}.html"' in gallery
            assert f"_static/media/{name}" in gallery
            with Image.open(media / name) as moving:
                assert moving.n_frames >= 3
                assert moving.info["loop"] == 0
