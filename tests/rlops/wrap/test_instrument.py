"""Every shape of ``main`` that a script can have: its variables are seen, and it behaves as it did."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from a2perf.errors import UserError
from a2perf.experiments.script_wrapper.instrument import CAPTURE, LOCALS, SEED, instrument

SHAPES = {
    "four spaces and a docstring": 'def main(env="X"):\n    """Says."""\n    model = env + "!"\n',
    "return": 'def main(env="X"):\n    model = env + "!"\n    return 3\n',
    "return in the middle": 'def main(env="X"):\n    model = env + "!"\n    if model:\n        return\n    model = 0\n',
    "decorator": 'def plain(f):\n    return f\n\n@plain\ndef main(env="X"):\n    model = env + "!"\n',
    "decorator that wraps": (
        "import functools\n\ndef loud(f):\n    @functools.wraps(f)\n"
        "    def inner(*a, **k):\n        return f(*a, **k)\n"
        '    return inner\n\n@loud\ndef main(env="X"):\n    model = env + "!"\n'
    ),
    "two spaces": 'def main(env="X"):\n  model = env + "!"\n',
    "signature over lines": 'def main(\n    env="X",\n    other=7,\n):\n    model = env + "!"\n    assert other == 7\n',
    "tabs": 'def main(env="X"):\n\tmodel = env + "!"\n\tif model:\n\t\tpass\n',
    "body on the line": 'def main(env="X"): model = env + "!"\n',
    "second parameter with a default": 'def main(env="X", steps=5):\n    model = env + "!" * (steps - 4)\n',
    "__all__ without main": '__all__ = ["other"]\nother = 1\n\ndef main(env="X"):\n    model = env + "!"\n',
    "private helper": 'def _mark(): return "!"\n\ndef main(env="X"):\n    model = env + _mark()\n',
    "keyword only": 'def main(*, env):\n    model = env + "!"\n',
    "any keywords": 'def main(**given):\n    model = given["env"] + "!"\n',
    "under a guard": 'if True:\n    def main(env="X"):\n        model = env + "!"\n',
    "in a try": (
        'try:\n    import nothing_so_named\nexcept ImportError:\n    def main(env="X"):\n        model = env + "!"\n'
    ),
    "global statement": 'model = 0\n\ndef main(env="X"):\n    global model\n    model = env + "!"\n',
    "closure": (
        'def main(env="X"):\n    model = env\n    def add():\n        nonlocal model\n        model += "!"\n    add()\n'
    ),
    "shadows locals": 'def main(env="X"):\n    locals = 3\n    model = env + "!"\n',
    "future import": 'from __future__ import annotations\n\ndef main(env: Unknown = "X"):\n    model = env + "!"\n',
    "called at the end": 'def main(env="X"):\n    model = env + "!"\n\nif __name__ == "__main__":\n    main("never")\n',
    "other encoding": '# coding: latin-1\ndef main(env="X"):\n    """\xe9"""\n    model = env + "!"\n',
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the script of a test is written."""
    return tmp_path / "script.py"


def execute(path: Path, **names: Any) -> tuple[dict[str, Any], Any]:
    """Runs a script as the child process does; returns the seen variables, and what main returned or raised."""
    seen: dict[str, Any] = {}
    names |= {"__name__": "script", "__file__": str(path), CAPTURE: seen.update, LOCALS: locals}
    exec(instrument(path).code, names)
    try:
        result = names["main"](env="E")
        if inspect.iscoroutine(result):
            asyncio.run(result)
        elif hasattr(result, "__next__"):
            list(result)
    except ValueError as error:
        result = error
    return {**names, **seen}, result


@pytest.mark.parametrize("shape", SHAPES)
def test_the_variables_of_main_are_seen(path: Path, shape: str):
    path.write_bytes(SHAPES[shape].encode("latin-1"))
    names, result = execute(path)
    assert names["model"] == "E!"
    assert result == (3 if shape == "return" else None)


@pytest.mark.parametrize(
    "text",
    [
        'def main(env="X"):\n    model = env\n    yield 1\n    model += "!"\n    yield 2\n',
        'import asyncio\n\nasync def main(env="X"):\n    await asyncio.sleep(0)\n    model = env + "!"\n',
    ],
)
def test_generators_and_coroutines(path: Path, text: str):
    path.write_text(text)
    assert execute(path)[0]["model"] == "E!"


def test_variables_are_seen_when_main_fails_and_the_traceback_is_its_own(path: Path):
    path.write_text('def main(env="X"):\n    model = env + "!"\n    raise ValueError(model)\n')
    seen, error = execute(path)
    assert (seen["model"], str(error)) == ("E!", "E!")
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == (str(path), 3, "main")


def test_an_imported_main_runs_without_being_looked_into(path: Path):
    path.write_text("from elsewhere import main\n")
    assert not instrument(path).captures


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def train(env): pass\nclass Agent: pass\n", "has no function main; it defines train, Agent"),
        ("x = 1\n", "has no function main; it defines no function"),
        ("class A:\n    def main(self, env): pass\n", "has no function main; it defines A"),
        ("def main(steps=1, env='X', /): pass\n", "takes `env` by position, but not first"),
        (
            "import click\n@click.command()\n@click.option('--name')\ndef main(name): pass\n",
            r"script\.py:4: main\(name\) is a click command without `env`",
        ),
        ("def main(env, steps, *, device): pass\n", "requires steps, device"),
        ("\0", "is not a Python file|null"),
    ],
)
def test_what_cannot_be_wrapped_is_said(path: Path, text: str, words: str):
    path.write_text(text)
    with pytest.raises(UserError, match=words) as caught:
        instrument(path)
    assert int(caught.value.exit_code) == 2


@pytest.mark.skipif(importlib.util.find_spec("gym") is not None, reason="the old gym is installed")
@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("import gym\ndef main(env): pass\n", True),
        ("from gym.wrappers import Monitor\ndef main(env): pass\n", True),
        ("def main(env):\n    import gym.spaces as spaces\n", True),
        ("try:\n    import gym\nexcept ImportError:\n    import gymnasium as gym\ndef main(env): pass\n", False),
        ("import gymnasium as gym\nfrom .gym import x\ndef main(env): pass\n", False),
    ],
)
def test_the_old_gym_is_refused_where_it_is_not_installed(path: Path, tmp_path: Path, text: str, is_refused: bool):
    path.write_text(text)
    with pytest.raises(UserError, match="imports gym, the predecessor of gymnasium") if is_refused else nullcontext():
        instrument(path)
    (tmp_path / "gym.py").write_text("")  # a module of that name beside the script is what it means
    instrument(path)


@pytest.mark.parametrize(
    "binding",
    [
        "SEED = 0",
        "SEED: int = 0",
        "OTHER = SEED = 0",
        "SEED, OTHER = 0, 1",
        "if True:\n    SEED = 0",
        "try:\n    SEED = 0\nfinally:\n    pass",
        "try:\n    raise OSError\nexcept OSError:\n    SEED = 0",
        "with open(__file__):\n    SEED = 0",
        "from signal import SIGINT as SEED",
        "SEED = 0\nSEED += 1",
    ],
)
def test_the_seed_is_replaced_before_anything_reads_it(path: Path, binding: str):
    path.write_text(
        f"{binding}\nDERIVED = SEED * 2\ndef main(env, seed=SEED):\n    seen = [SEED, seed, DERIVED, DEFAULT.seed]\n"
        "class DEFAULT:\n    seed = SEED\n"
    )
    assert execute(path, **{SEED: 42})[0]["seen"] == [42, 42, 84, 42]
