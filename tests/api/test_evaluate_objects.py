"""Which objects are policies, how they are called and pickled, and what a policy that cannot be pickled is told."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from a2perf.api import live_policy_pickle
from a2perf.api.live_policy import live_policy
from a2perf.errors import UserError
from tests.api.evaluate_runs import evaluate
from tests.commands import run_python


class Constant:
    def __init__(self, action: Any = 1) -> None:
        self.action = action

    def act(self, observation: Any) -> Any:
        return self.action

    def method(self, observation: Any, scale: float = 1.0) -> Any:
        return self.action


class Called(Constant):
    act = None  # type: ignore[assignment]

    def __call__(self, observation: Any) -> Any:
        return self.action


class Predicting:
    def predict(self, observation: Any, state: Any = None, deterministic: bool = False) -> tuple[Any, Any]:
        return (np.array(3) if deterministic else None), state


class Both(Constant):
    def infer_once(self, observation: Any) -> Any:
        return 2


def scaled(factor: int, observation: Any) -> Any:
    return factor


def loaded(folder: Path) -> Any:
    """Calls the functions of a submission on one observation in a process of its own, without a2perf's evaluator."""
    code = """
        import sys
        sys.path.insert(0, ".")
        import inference
        policy = inference.load_policy(None)
        print(inference.infer_once(policy, inference.preprocess_observation({"a": 1})))
    """
    done = run_python(code, cwd=folder, check=True)
    return int(done.stdout)


def _cases() -> dict[str, tuple[Any, int, str]]:
    inner = 5
    return {
        "closure": (lambda observation: inner, 5, "policy"),
        "object": (Constant(1), 1, "Constant"),
        "callable object": (Called(4), 4, "Called"),
        "predict": (Predicting(), 3, "Predicting"),
        "infer_once first": (Both(), 2, "Both"),
        "bound method": (Constant(6).method, 6, "Constant"),
        "partial": (functools.partial(scaled, 7), 7, "scaled"),
        "partial by name": (functools.partial(lambda observation, action: action, action=8), 8, "policy"),
    }


@pytest.mark.parametrize("case", list(_cases()))
def test_objects_travel_with_their_code(case: str, tmp_path: Path) -> None:
    policy, action, name = _cases()[case]
    prepared = live_policy(policy)
    assert prepared.name == name
    assert loaded(prepared.written_to(tmp_path)) == action


def test_the_code_of_modules_that_are_not_installed_travels_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_helper.py").write_text(
        "import numpy as np\nWEIGHTS = {'a': 9}\ndef choose(o):\n    return np.int64(WEIGHTS['a'])\n"
    )
    spec = importlib.util.spec_from_file_location("my_helper", tmp_path / "my_helper.py")
    assert spec is not None
    assert spec.loader is not None
    my_helper = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_helper", my_helper)
    spec.loader.exec_module(my_helper)
    before = cloudpickle.list_registry_pickle_by_value()
    prepared = live_policy(my_helper.choose)
    assert cloudpickle.list_registry_pickle_by_value() == before
    assert any(line.startswith("numpy==") for line in prepared.packages), prepared.packages
    assert loaded(prepared.written_to(tmp_path / "place")) == 9


def test_a_policy_is_known_again_by_code_and_state() -> None:
    source = """
class Policy:
    names = {'a', 'b', 'c'}

    def act(self, o):
        return o in {'x', 'y', 'z'}

policy = Policy()
"""

    def prepared(text: str, file: str) -> str:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, file, "exec", dont_inherit=True), names)
        return live_policy(names["policy"]).digest

    first = prepared(source, "cell_1")
    assert prepared("\n\n" + source, "cell_2") == first
    assert prepared(source.replace("'z'", "'w'"), "cell_1") != first
    assert prepared(source.replace("'c'", "'d'"), "cell_1") != first
    assert live_policy(Constant(1)).digest != live_policy(Constant(2)).digest
    assert live_policy(Constant(1), "other").digest != live_policy(Constant(1)).digest

    # another process orders sets of texts in another way
    code = f"""
names = {{'__name__': '__main__'}}
exec({source!r}, names)
from a2perf.api import live_policy_pickle
from a2perf.api.live_policy import live_policy
print(live_policy(names['policy']).digest)
"""
    done = run_python(code, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert done.stdout.strip() == first


class _Env:
    def __init__(self) -> None:
        self.lock = threading.Lock()


class _WithEnv:
    def __init__(self) -> None:
        self.env = _Env()
        self.log: Any = None

    def act(self, observation: Any) -> int:
        return 0


class _Refusing:
    def __reduce__(self) -> Any:
        raise RuntimeError("not today")

    def act(self, observation: Any) -> int:
        return 0


def _with_socket() -> Any:
    import socket

    connection = socket.socket()
    return lambda observation: (connection, observation)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (_WithEnv(), "policy.env.lock is a _thread.lock, which cannot be pickled"),
        (_WithEnv().act, "policy.env.lock is a _thread.lock, which cannot be pickled"),
        (functools.partial(scaled, [threading.RLock()]), r"policy.args\[0\]\[0\] is a _thread.RLock"),
        (_with_socket(), "connection is a socket.socket, which cannot be pickled"),
        (_Refusing(), "the policy is a .*_Refusing, which cannot be pickled: RuntimeError: not today"),
    ],
)
def test_the_part_that_cannot_be_pickled_is_named(policy: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as caught:
        evaluate(policy, tmp_path / "root")
    assert caught.value.hint
    assert not (tmp_path / "root").exists()


async def _coroutine(observation: Any) -> int:
    return 0


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda: 0, r"the policy policy\(\) cannot be called with one observation"),
        (lambda observation, state: 0, r"policy\(observation, state\) cannot be called with one observation"),
        (scaled, r"the policy scaled\(factor, observation\) cannot be called"),
        (lambda *, observation: 0, r"policy\(observation\) cannot be called"),
        (functools.partial(scaled, 1, 2), "cannot be called with one observation"),
        (_coroutine, "the policy _coroutine is async"),
        (Constant, "the policy is the class Constant, not an object"),
        (functools, "the policy is the module functools"),
        (3, "the policy is a int, which has none of infer_once, act, predict, __call__"),
        (None, "the policy is a NoneType"),
    ],
)
def test_an_object_that_is_not_a_policy_is_refused(policy: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        evaluate(policy, tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_another_python_is_refused_by_name(tmp_path: Path) -> None:
    folder = live_policy(Constant()).written_to(tmp_path)
    source = (folder / "inference.py").read_text()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (folder / "inference.py").write_text(source.replace(f'python="{version}"', 'python="3.7"'))
    with pytest.raises(AssertionError, match=r"the policy was pickled by Python 3\.7"):
        loaded(folder)


def test_any_name_becomes_a_folder_and_a_title(tmp_path: Path) -> None:
    from a2perf.runs.submission_info import read_submission_info

    prepared = live_policy(Constant(), 'Größe "A" \N{ROCKET} lr=3e-4/\x7f..')
    assert prepared.name == "Gr_e_A_lr_3e-4"
    info = read_submission_info(prepared.written_to(tmp_path))
    assert info is not None
    assert info.title.startswith('Größe "A" \N{ROCKET} lr=3e-4/')


@pytest.mark.parametrize(
    ("folder", "travels"),
    [("project", True), ("elsewhere/lib/python3.11/site-packages", False), ("usr/lib/python3/dist-packages", False)],
)
def test_only_modules_outside_of_the_packages_of_any_python_travel(
    tmp_path: Path, monkeypatch, folder: str, travels: bool
) -> None:
    """A .pth file and `venv --system-site-packages` bring packages of another Python."""
    name = f"own_or_installed_{folder.count('/')}"
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / f"{name}.py").write_text("def act(observation):\n    return 0\n")
    monkeypatch.syspath_prepend(place)
    module = importlib.import_module(name)
    try:
        assert (module in live_policy_pickle._own_modules()) is travels
        assert (b"observation" in live_policy_pickle.pickled(module.act)) is travels  # the code names its argument
    finally:
        del sys.modules[name]
