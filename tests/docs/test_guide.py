"""The documentation is true: its commands run, its files exist, and every command and option it needs is documented."""

from __future__ import annotations

import re
from pathlib import Path

from tests.shipped import shipped_domains


def test_files_that_the_landing_page_links_to_exist(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not (repository / link).exists()] == []


def test_readme_names_every_registered_id(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    for domain in shipped_domains().values():
        for environment in domain.environments:
            family, _, rest = environment.id.partition("-")
            newest = rest.replace("-v0", "-v1") if f"`-{rest}`" not in text and "the same with `-v0`" in text else rest
            named = {f"`-{newest}`", f"`{family}-{newest}`", f"`{environment.id}`"}
            assert any(name in text for name in named), environment.id


def test_notices_name_every_direct_dependency_and_the_terms_of_the_clips(repository: Path) -> None:
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    text = (repository / "third_party" / "NOTICES.md").read_text(encoding="utf-8")
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None
        if name.group() not in ("a2perf", "types-psutil"):
            assert re.search(rf"\b{re.escape(name.group())}\b", text), name.group()
    assert "CC BY-NC 4.0" in text
