"""The landing page is true: its code runs, its pictures exist, and its numbers are the ones that were measured."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

from tests.commands import run_command, run_python
from tests.docs import documents
from tests.shipped import shipped_domains


def _blocks(repository: Path, language: str) -> list[str]:
    text = (repository / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def test_the_python_examples_run_and_print_the_score_that_the_page_shows(repository: Path, tmp_path: Path) -> None:
    block, registered = _blocks(repository, "python")
    shown, _ = _blocks(repository, "text")
    done = run_python(block, cwd=tmp_path, check=True)
    documents.expect(done.stdout, shown, "README.md")
    assert re.search(r"Return +500\n", shown)
    run_python(registered, cwd=tmp_path, check=True)


def test_the_shell_example_ends_with_the_shown_score_and_a_report(repository: Path, tmp_path: Path) -> None:
    _, block = _blocks(repository, "sh")
    _, shown = _blocks(repository, "text")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = run_command(["bash", "-euc", block], tmp_path, check=True, env=environment)
    documents.expect(done.stdout, shown, "README.md")
    assert (tmp_path / "my_submission" / "runs" / "first" / "report" / "index.html").is_file()


def test_links_lead_to_files_and_pictures_have_a_text(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not (repository / link).exists()] == []
    pictures = [(path, alternative) for alternative, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text)]
    pictures += re.findall(r'<img src="([^"]+)"[^>]* alt="([^"]*)"', text)
    assert len(pictures) >= 4
    for path, alternative in pictures:
        assert (repository / path).is_file(), path
        assert alternative


def test_readme_names_every_registered_id(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    for domain in shipped_domains().values():
        for environment in domain.environments:
            family, _, rest = environment.id.partition("-")
            newest = rest.replace("-v0", "-v1") if f"`-{rest}`" not in text and "the same with `-v0`" in text else rest
            named = {f"`-{newest}`", f"`{family}-{newest}`", f"`{environment.id}`"}
            assert any(name in text for name in named), environment.id


def test_notices_name_every_direct_dependency_and_the_terms_of_the_clips(repository: Path) -> None:
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
