"""``gymnasium.make`` knows the ids without an import of a2perf."""

import subprocess
import sys


def fresh_python(code: str, *flags: str) -> str:
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.strip()


def test_ids_are_known_after_importing_gymnasium_alone() -> None:
    code = (
        "import sys, gymnasium\n"
        "print('QuadrupedLocomotion-DogPace-v0' in gymnasium.registry, 'QuadrupedLocomotion-DogPace-v0' and"
        " any(name in sys.modules for name in ('pybullet', 'numba', 'tensorflow', 'codecarbon', 'selenium')))"
    )
    assert fresh_python(code) == "True False"


def test_interpreter_start_imports_nothing_but_the_plugin() -> None:
    code = "import sys; print(sorted(n for n in sys.modules if n.startswith(('a2perf', 'gymnasium', 'numpy'))))"
    assert fresh_python(code) == "['a2perf', 'a2perf._gymnasium_plugin']"


def test_a_broken_domain_never_breaks_the_import_of_gymnasium() -> None:
    code = (
        "import sys; sys.modules['a2perf.domains'] = None\n"
        "import gymnasium; print(gymnasium.make('CartPole-v1').spec.id)"
    )
    assert fresh_python(code) == "CartPole-v1"
