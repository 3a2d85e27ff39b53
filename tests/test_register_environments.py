"""``import a2perf`` makes the ids known to Gymnasium, in whichever order the two are imported."""

import sys

import pytest

from tests.commands import run_command


def fresh_python(code: str, *flags: str) -> str:
    done = run_command([sys.executable, *flags, "-c", code], "/", check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("imports", ["import a2perf, gymnasium", "import gymnasium, a2perf"])
def test_ids_are_known_in_either_order_of_imports(imports: str) -> None:
    code = (
        f"{imports}, sys\n"
        "print('QuadrupedLocomotion-DogPace-v0' in gymnasium.registry,"
        " any(name in sys.modules for name in ('pybullet', 'numba', 'tensorflow', 'codecarbon', 'selenium')))"
    )
    assert fresh_python(code) == "True False"


def test_gymnasium_imports_the_package_that_an_id_names() -> None:
    code = (
        "import gymnasium\n"
        "env = gymnasium.make('a2perf:CircuitTraining-ToyMacro-v0')\n"
        "print(env.reset(seed=0)[1] is not None, env.spec.id)"
    )
    assert fresh_python(code) == "True CircuitTraining-ToyMacro-v0"


def test_import_loads_neither_gymnasium_nor_numpy_nor_any_other_module_of_the_package() -> None:
    code = (
        "import a2perf, sys; print(sorted(n for n in sys.modules if n.startswith(('a2perf.', 'gymnasium', 'numpy'))))"
    )
    assert fresh_python(code) == "['a2perf._register_environments', 'a2perf._version']"


def test_interpreter_start_loads_nothing_of_the_package() -> None:
    assert fresh_python("import sys; print([n for n in sys.modules if n.startswith('a2perf')])") == "[]"


def test_a_broken_domain_never_breaks_the_import_of_gymnasium() -> None:
    code = (
        "import sys; sys.modules['a2perf.domains'] = None\n"
        "import a2perf, gymnasium; print(gymnasium.make('CartPole-v1').spec.id)"
    )
    assert fresh_python(code) == "CartPole-v1"
