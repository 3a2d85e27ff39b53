"""The contract: every signature of old works, every fault is named with its place and its hint."""

import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.submission.participant.signatures import (
    INFER_ONCE,
    LOAD_POLICY,
    PREPROCESS,
    TRAIN,
    ContractError,
    accepted_args,
    check_infer_once,
    check_load_policy,
    check_preprocess,
    find,
)
from tests.commands import run_command


def signature(parameters: str) -> inspect.Signature:
    namespace: dict[str, Callable[..., None]] = {}
    exec(f"def function({parameters}): pass", namespace)
    return inspect.signature(namespace["function"])


@pytest.mark.parametrize(
    ("parameters", "call"),
    [
        ("policy, observation", None),
        ("policy, preprocessed_observation", None),
        ("model, observation", None),
        ("a, b, c=1, **rest", None),
        ("*args", None),
        ("policy, *rest", None),
        ("a, b, /", None),
        ("observation, policy", ("policy", "observation")),
        ("*, policy, observation", ("policy", "observation")),
        ("*, model, preprocessed_observation", ("model", "preprocessed_observation")),
        ("**kwargs", ("policy", "preprocessed_observation")),
        ("policy, **kwargs", ("policy", "preprocessed_observation")),
    ],
)
def test_infer_once_is_called_as_it_is_written(parameters: str, call: tuple[str, str] | None) -> None:
    assert check_infer_once(signature(parameters)) == call


@pytest.mark.parametrize(
    ("parameters", "takes_spec"),
    [
        ("observation", False),
        ("x", False),
        ("observation, time_step_spec", True),
        ("observation, time_step_spec=None", True),
        ("observation, *, time_step_spec", True),
        ("observation, **kwargs", True),
        ("*args", False),
        ("observation, scale=2", False),
    ],
)
def test_preprocess_gets_the_spec_only_where_it_takes_it(parameters: str, takes_spec: bool) -> None:
    assert check_preprocess(signature(parameters)) is takes_spec


@pytest.mark.parametrize(
    ("parameters", "keyword"),
    [
        ("env", None),
        ("env, **kwargs", None),
        ("environment, a='1'", None),
        ("*args, **kw", None),
        ("*, env", "env"),
        ("**kw", "env"),
    ],
)
def test_load_policy_gets_the_environment(parameters: str, keyword: str | None) -> None:
    assert check_load_policy(signature(parameters)) == keyword


UNCALLABLE = {
    (check_infer_once, r"expected infer_once\(policy, observation\), found infer_once\("): (
        "",
        "policy",
        "policy, observation, extra",
        "policy, observation, *, extra",
    ),
    (check_preprocess, r"expected preprocess_observation\(observation\)"): (
        "",
        "observation, scale",
        "*, observation",
        "**kwargs",
    ),
    (check_load_policy, r"expected load_policy\(env, \*\*participant_args\)"): ("", "*, path", "env, a, /"),
}


@pytest.mark.parametrize(
    ("check", "said", "parameters"), [(*case, parameters) for case, each in UNCALLABLE.items() for parameters in each]
)
def test_function_that_cannot_be_called_is_refused_with_its_signature(
    check: Callable[[inspect.Signature], object], said: str, parameters: str
) -> None:
    with pytest.raises(ContractError, match=said):
        check(signature(parameters))


def test_arguments_go_only_to_functions_that_take_them() -> None:
    given = {"gin_config_path": "x.gin"}
    assert accepted_args("train", signature("**kw"), given) == given
    assert accepted_args("train", signature("gin_config_path, other=1"), given) == given
    assert accepted_args("load_policy", signature("env, gin_config_path"), given, env=True) == given
    assert accepted_args("load_policy", signature("*, env, gin_config_path"), given, env=True) == given
    assert accepted_args("train", signature(""), {}) == {}
    with pytest.raises(ContractError, match=r"'gin_config_path'.*accepts no arguments"):
        accepted_args("train", signature(""), given)
    with pytest.raises(ContractError, match=r"'seed'.*accepts steps, rate"):
        accepted_args("train", signature("steps='1', *, rate='2'"), {"seed": "1"})
    with pytest.raises(ContractError, match=r"'steps'[\s\S]*--participant-args=steps="):
        accepted_args("train", signature("steps"), {})


def test_old_name_of_load_policy_still_works() -> None:
    class Module:
        @staticmethod
        def load_model(env):
            return env

    assert find(Module, LOAD_POLICY) is Module.load_model


@pytest.mark.parametrize("role", [TRAIN, LOAD_POLICY, PREPROCESS, INFER_ONCE], ids=lambda role: role.names[0])
def test_name_bound_to_something_else_is_a_contract_error(role) -> None:
    module = type("Module", (), {role.names[0]: 3})
    with pytest.raises(ContractError, match=f"{role.names[0]} is a int, not a function"):
        find(module, role)


def run(folder: Path, code: str) -> str:
    """Runs code in a process whose submission is ``folder``."""
    prelude = (
        "from pathlib import Path\nfrom a2perf.submission.participant import loader\n"
        f"name = loader.install(Path({str(folder)!r}))\n"
    )
    done = run_command([sys.executable, "-P", "-W", "error", "-c", prelude + textwrap.dedent(code)], check=True)
    return done.stdout.strip()


def test_folder_is_modules_and_package_at_once_and_loads_each_file_once(submission) -> None:
    folder = submission(
        folder="my-entry 2",
        train="""
            from . import layers
            from .nested.deep import where
            import layers as plain
            assert plain is layers
            import layers, inference
            from . import inference as again
            assert again is inference
            def train(): return __name__, __package__, layers.__name__, where
        """,
        layers="print('loaded once')\n",
        inference="from .train import __name__ as other\n",
    )
    (folder / "nested").mkdir()
    (folder / "nested" / "__init__.py").write_text("")
    (folder / "nested" / "deep.py").write_text("from ..layers import __name__ as x\nwhere = __file__[-14:]\n")
    output = run(folder, "import train, sys\nprint(name, *train.train())\nassert sys.modules[name].train is train")
    assert output.splitlines() == ["loaded once", "my_entry_2 train my_entry_2 layers nested/deep.py"]


def test_initialisation_runs_only_for_relative_imports(submission) -> None:
    assert run(submission(__init__="print('package')"), "import train") == ""
    assert (
        run(submission(__init__="print('package')", train="from . import other", other=""), "import train") == "package"
    )


def test_package_that_imports_its_own_modules_is_no_circle(submission) -> None:
    folder = submission(
        __init__="from .train import train\n", train="from . import other\ndef train(): return other.x\n", other="x = 5"
    )
    assert run(folder, "import train; print(train.train())") == "5"


@pytest.mark.parametrize("folder", ["numpy", "train", "2nd", "class", "json", "données"])
def test_name_of_the_folder_hides_nothing(submission, folder: str) -> None:
    path = submission(
        folder=folder, train="from . import other\nimport numpy, json\nnumpy.zeros, json.loads\n", other=""
    )
    name = run(path, "import train; print(name)")
    assert name.isidentifier()
    assert name not in ("numpy", "train", "class", "json")


def test_folder_is_never_written(submission) -> None:
    folder = submission(train="from . import other\nimport other\n", other="x = 1")
    (folder / "nested").mkdir()
    (folder / "nested" / "__init__.py").write_text("")
    before = sorted(folder.rglob("*"))
    run(folder, "import train, nested")
    assert sorted(folder.rglob("*")) == before
