"""A submission in its own process: every way of failing is told truly, in time, and leaves nothing behind."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from a2perf.errors import InfrastructureError
from a2perf.records import FailureKind
from a2perf.sandbox import Limits
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from tests.made_submissions import policy
from tests.participants import make_participant
from tests.waiting import Child, is_alive, until

MIB = 1024 * 1024


def inference(
    *, top: str = "", load: str = "return kwargs", infer: str = "return np.asarray(observation)[:2]", **bodies
):
    """Returns a policy that counts its calls."""
    counted = f"global calls\ncalls += 1\n{infer}"
    return policy(top=f"import time\n{top}\ncalls = 0", load=load, infer=counted, **bodies)


@pytest.fixture
def process(tmp_path: Path):
    """Makes participant processes; whatever is left at the end of a test is killed."""
    made: list[ParticipantProcess] = []

    def make(folder: Path, **settings) -> ParticipantProcess:
        made.append(make_participant(folder, **{"logs": tmp_path / "bundle" / "logs", **settings}))
        return made[-1]

    yield make
    for item in made:
        item.kill()


@pytest.fixture
def loaded(submission, process):
    """Starts a submission and loads its policy."""

    def begin(code: str, **settings) -> ParticipantProcess:
        participant = process(submission(inference=code), **settings)
        participant.start()
        participant.load_policy({}, timeout_s=300)
        return participant

    return begin


@pytest.fixture
def failing_train(submission, process):
    """Runs a train.py that fails and returns the failure."""

    def run(code: str, *, limit: float = 60.0, **settings):
        participant = process(submission(train=code), mode="train", **settings)

        def train() -> None:
            participant.start(time_limit_s=limit)
            participant.train({})

        with pytest.raises(ParticipantFailure) as caught:
            train()
        assert not any(map(is_alive, [participant.tree.pid, participant.tree.tree_root]))
        return caught.value.failure

    return run


# --- what works -------------------------------------------------------------------------------------------------------


def test_train_gets_exactly_the_variables_of_the_contract(submission, process, tmp_path: Path) -> None:
    folder = submission(
        train="""
        import json, os, sys
        def train(**participant_args):
            with open(os.path.join(os.environ["A2PERF_ARTIFACTS"], "seen.json"), "w") as file:
                json.dump([dict(os.environ), participant_args, os.getcwd(), sys.path[0], sys.argv], file)
        """
    )
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    given = {"ROOT_DIR": "/root-dir", "SEED": "7", "A2PERF_ENV_ID": "X-v0", "A2PERF_ENV_KWARGS": "{}"}
    with process(folder, mode="train", environment=given, artifacts=artifacts) as participant:
        participant.start()
        participant.train({"a": "1", "b": "x=y"})
    variables, args, cwd, first_path, argv = json.loads((artifacts / "seen.json").read_text())
    home = variables.pop("HOME")
    assert variables.pop("PATH").startswith(os.path.dirname(sys.executable))
    variables.pop("LC_CTYPE", None)  # set by Python itself, where the host has no such locale
    assert variables == given | {
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NUMEXPR_NUM_THREADS": "1",
        "A2PERF_ARTIFACTS": str(artifacts),
    }
    assert args == {"a": "1", "b": "x=y"}
    assert (cwd, first_path) == (str(artifacts), str(folder))
    assert argv == [str(folder / "train.py")]
    assert home != os.environ["HOME"]
    assert not os.path.exists(home)


def test_children_of_the_participant_leave_its_folder_as_it_is(submission, process) -> None:
    folder = submission(
        helper="value = 1\n",
        train="""
        import subprocess, sys
        def train():
            subprocess.run([sys.executable, "-c", "import helper"], check=True)
        """,
    )
    before = sorted(folder.rglob("*"))
    with process(folder, mode="train") as participant:
        participant.start()
        participant.train({})
    assert sorted(folder.rglob("*")) == before


def test_train_mode_never_imports_inference_and_runs_exit_handlers(submission, process, tmp_path: Path) -> None:
    folder = submission(
        train=f"""
        import atexit, pathlib
        atexit.register(pathlib.Path({str(tmp_path / "written")!r}).write_text, "at exit")
        def train(): pass
        """,
        inference="raise RuntimeError('not wanted')",
    )
    with process(folder, mode="train") as participant:
        participant.start()
        participant.train({})
        pid = participant.tree.pid
    assert participant.ending is not None
    assert participant.ending.exit_code == 0
    assert not is_alive(pid)
    assert (tmp_path / "written").read_text() == "at exit"


def test_inference_answers_with_actions_and_times(loaded) -> None:
    code = inference(
        top="import time",
        preprocess="time.sleep(0.01); return observation['a'] * 2",
        infer="time.sleep(0.02); return observation",
    )
    participant = loaded(code)
    answer = participant.infer({"a": np.arange(3, dtype=np.float32), "text": "ü"}, timeout_s=300)
    np.testing.assert_array_equal(answer.action, [0, 2, 4])
    assert answer.preprocess_ns >= 10_000_000
    assert answer.infer_ns >= 20_000_000
    assert answer.preprocess_ns + answer.infer_ns <= answer.round_trip_ns
    assert participant.first_inference is answer
    assert participant.infer({"a": np.ones(1)}).action.tolist() == [2.0]
    assert participant.first_inference is answer


def test_observations_are_the_participants_own(loaded) -> None:
    code = inference(top="seen = []", infer="observation += 1; seen.append(observation); return seen[0]")
    participant = loaded(code)
    for size in (3, 100_000):
        observation = np.zeros(size, np.float32)
        first = participant.infer(observation, 20).action
        second = participant.infer(observation, 20).action
        np.testing.assert_array_equal(first, second)
        assert observation.sum() == 0


def test_assets_are_found_in_the_temporary_home(submission, process, tmp_path: Path) -> None:
    (tmp_path / "clip.txt").write_text("a clip")
    code = inference(
        load="return open(__import__('os').path.expanduser('~/.cache/a2perf/assets/dog/clip')).read()",
        infer="return policy",
    )
    with process(submission(inference=code), assets={"dog/clip": tmp_path / "clip.txt"}) as participant:
        participant.start()
        participant.load_policy({})
        assert participant.infer(0, 300).action == "a clip"
    assert (tmp_path / "clip.txt").read_text() == "a clip"


def test_printing_never_touches_the_wire_and_is_kept(loaded, tmp_path: Path) -> None:
    code = inference(
        top="import os, sys, subprocess",
        infer="print('to out'); os.write(2, b'to err'); subprocess.run(['echo', 'child']); return 1",
    )
    participant = loaded(code)
    assert [participant.infer(0, 300).action for _ in range(3)] == [1, 1, 1]
    participant.close()
    assert (tmp_path / "bundle/logs/stdout.log").read_text().count("to out") == 3
    assert (tmp_path / "bundle/logs/stdout.log").read_text().count("child") == 3
    assert (tmp_path / "bundle/logs/stderr.log").read_text() == "to err" * 3


def test_children_of_the_submission_work_and_hold_no_wire(submission, process) -> None:
    folder = submission(
        train="""
        import multiprocessing, os
        from . import work
        def double(x): return 2 * x + work.ONE
        def train():
            for method in ("spawn", "fork", "forkserver"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    assert pool.map(double, range(4)) == [1, 3, 5, 7], method
            for method in ("spawn", "fork"):
                stray = multiprocessing.get_context(method).Process(target=work.sleep, daemon=False)
                stray.start()
            os._exit(3)
        """,
        work="import time\nONE = 1\ndef sleep(): time.sleep(3600)\n",
    )
    participant = process(folder, mode="train")
    participant.start()
    with pytest.raises(ParticipantFailure, match="status 3"):
        participant.train({})


# --- what fails -------------------------------------------------------------------------------------------------------

BAD_TRAIN = {
    "exception at import": ("raise RuntimeError('no luck')", FailureKind.EXCEPTION, "import train.py", "no luck"),
    "syntax error": ("def train(:\n", FailureKind.CONTRACT, "import train.py", "SyntaxError in train.py, line 1"),
    "missing function": ("x = 1", FailureKind.CONTRACT, "import train.py", "no function train"),
    "needs an argument": ("def train(steps): pass", FailureKind.CONTRACT, "import train.py", "'steps'"),
    "sys.exit(2)": ("import sys\ndef train(): sys.exit(2)", FailureKind.EXIT, "train", "status 2 before it answered"),
    "sys.exit(0) at import": ("import sys; sys.exit(0)", FailureKind.EXIT, "import train.py", "status 0"),
    "sys.exit at import": ("import sys; sys.exit('stop')", FailureKind.EXIT, "import train.py", "status 1"),
    "interrupt": ("def train(): raise KeyboardInterrupt", FailureKind.EXCEPTION, "train", "KeyboardInterrupt"),
    "exception that cannot be shown": (
        "class E(BaseException):\n    def __str__(self): raise E()\ndef train(): raise E()",
        FailureKind.EXCEPTION,
        "train",
        "the message cannot be formatted",
    ),
    "out of memory": ("def train(): raise MemoryError('8 GiB')", FailureKind.MEMORY, "train", "8 GiB"),
    "endless recursion": ("def train(): train()", FailureKind.EXCEPTION, "train", "RecursionError"),
    "coroutine": ("async def train(): pass", FailureKind.CONTRACT, "import train.py", "is async"),
    "generator": ("def train(): yield 1", FailureKind.CONTRACT, "import train.py", "is a generator"),
    "async generator": ("async def train(): yield 1", FailureKind.CONTRACT, "import train.py", "is async"),
    "partial of a generator": (
        "import functools\ndef work(n): yield n\ntrain = functools.partial(work, 1)",
        FailureKind.CONTRACT,
        "import train.py",
        "is a generator",
    ),
    "returned coroutine": (
        "async def work(): pass\ndef train(): return work()",
        FailureKind.CONTRACT,
        "train",
        "returned a coroutine",
    ),
    "returned generator": (
        "def work(): yield 1\ndef train(): return work()",
        FailureKind.CONTRACT,
        "train",
        "returned a generator",
    ),
    "returned map": ("def train(): return map(print, [1])", FailureKind.CONTRACT, "train", "returned a map"),
    "returned partial": (
        "import functools\ndef train(): return functools.partial(print, 1)",
        FailureKind.CONTRACT,
        "train",
        "returned a partial",
    ),
    "returned awaitable": (
        "class Later:\n    def __await__(self): yield\ndef train(): return Later()",
        FailureKind.CONTRACT,
        "train",
        "returned a Later",
    ),
    "thread not started": (
        "import threading\ndef train(): return threading.Thread()",
        FailureKind.CONTRACT,
        "train",
        "returned a Thread",
    ),
    "running thread": (
        "import threading, time\n"
        "def train():\n    thread = threading.Thread(target=time.sleep, args=(600,), daemon=True)\n"
        "    thread.start()\n    return thread",
        FailureKind.CONTRACT,
        "train",
        "returned a Thread",
    ),
    "process not started": (
        "import multiprocessing\ndef train(): return multiprocessing.Process()",
        FailureKind.CONTRACT,
        "train",
        "returned a Process",
    ),
    "waiting future": (
        "from concurrent.futures import Future\ndef train(): return Future()",
        FailureKind.CONTRACT,
        "train",
        "returned a Future",
    ),
    "failed future": (
        "from concurrent.futures import Future\n"
        "def train():\n    future = Future()\n    future.set_exception(ValueError('lost'))\n    return future",
        FailureKind.EXCEPTION,
        "train",
        "ValueError: lost",
    ),
}

GOOD_ENDS = {
    "returns": "def train(): return 1",
    "sys.exit()": "import sys\ndef train(): sys.exit()",
    "sys.exit(0)": "import sys\ndef train(): sys.exit(0)",
    "SystemExit(None)": "def train(): raise SystemExit(None)",
    "sys.exit(False)": "import sys\ndef train(): sys.exit(False)",
    "absl app.run": "from absl import app\ndef train(): app.run(lambda argv: None)",
    "click": "import click\n@click.command()\ndef main(): pass\ndef train(): main()",
    "argparse --help": "import argparse\ndef train(): argparse.ArgumentParser().parse_args(['--help'])",
    "finished thread": (
        "import threading\ndef train():\n    thread = threading.Thread(target=print)\n    thread.start()\n"
        "    thread.join()\n    return thread"
    ),
    "finished future": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def train():\n    with ThreadPoolExecutor() as pool:\n        return pool.submit(print)"
    ),
    "a policy": "def train(): return lambda observation: 0",
}


@pytest.mark.parametrize("case", GOOD_ENDS)
def test_training_that_ends_like_a_script_has_finished(process, submission, case: str) -> None:
    participant = process(submission(train=GOOD_ENDS[case]), mode="train")
    participant.start(time_limit_s=60)
    participant.train({})


@pytest.mark.parametrize("case", BAD_TRAIN)
def test_failing_training_is_told_truly(failing_train, case: str) -> None:
    code, kind, where, words = BAD_TRAIN[case]
    failure = failing_train(code)
    assert (failure.kind, failure.where) == (kind, where)
    assert words in failure.message
    assert failure.log == "logs/stderr.log"
    if kind in (FailureKind.EXCEPTION, FailureKind.MEMORY) and "shown" not in case and "future" not in case:
        assert "train.py" in failure.traceback
        assert "worker.py" not in failure.traceback  # the participant is to see its own code only


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_signal_that_ended_it_is_named(failing_train, number: signal.Signals) -> None:
    failure = failing_train(f"import os\ndef train(): os.kill(os.getpid(), {int(number)})")
    assert (failure.kind, failure.signal, failure.exit_code) == (FailureKind.SIGNAL, number.name, None)


def test_crash_in_compiled_code_leaves_its_traceback(failing_train) -> None:
    failure = failing_train("import ctypes\ndef train(): ctypes.string_at(0)")
    assert (failure.kind, failure.signal) == (FailureKind.SIGNAL, "SIGSEGV")
    assert "Segmentation fault" in failure.traceback
    assert "train.py" in failure.traceback


FORKS = "import os, time\ndef train():\n    for _ in range({count}): os.fork() or {work}\n    time.sleep(600)"
OVER = {
    "time of the training": ("import time\ndef train(): time.sleep(600)", {"limit": 0.5}, FailureKind.TIMEOUT, "0.5 s"),
    "memory of the tree": (
        FORKS.format(count=3, work="(b'x' * (150 * 2**20), time.sleep(600))"),
        {"limits": Limits(memory_bytes=300 * MIB)},
        FailureKind.MEMORY,
        f"{300 * MIB:,}",
    ),
    "memory of a process": (
        "def train(): block = bytearray(2**32)",
        {"limits": Limits(memory_bytes=512 * MIB)},
        FailureKind.MEMORY,
        "",
    ),
    "processes": (
        FORKS.format(count=9, work="time.sleep(600)"),
        {"limits": Limits(processes=3)},
        FailureKind.FORBIDDEN,
        "",
    ),
    "processor time": ("def train():\n    while True: pass", {"limits": Limits(cpu_s=1)}, FailureKind.TIMEOUT, ""),
    "wall time": (
        "import time\ndef train(): time.sleep(600)",
        {"limits": Limits(wall_s=1)},
        FailureKind.TIMEOUT,
        "",
    ),
}


@pytest.mark.parametrize("what", OVER)
def test_training_over_a_limit_is_ended_and_the_limit_named(failing_train, what: str) -> None:
    code, given, kind, said = OVER[what]
    failure = failing_train(code, **given)
    assert failure.kind is kind
    assert said in failure.message
    assert what != "memory of a process" or "bytearray" in failure.traceback


def test_every_missing_function_is_named_at_once(submission, process) -> None:
    participant = process(submission(inference="def load_policy(): pass"))
    participant.start()
    with pytest.raises(ParticipantFailure) as caught:
        participant.load_policy({})
    failure = caught.value.failure
    assert failure.kind is FailureKind.CONTRACT
    for words in ("found load_policy()", "no function preprocess_observation", "no function infer_once"):
        assert words in failure.message


BAD_INFERENCE = {
    "exception in the 5th call": ("assert calls < 5, 'fifth'\nreturn 1", FailureKind.EXCEPTION, "fifth"),
    "huge array in the 5th call": ("return np.zeros((1, 10**9)[calls == 5], 'u1')", FailureKind.BAD_OUTPUT, "bytes"),
    "huge text in the 5th call": ("return 'x' * (10**8 if calls == 5 else 1)", FailureKind.BAD_OUTPUT, "bytes"),
    "object in the 5th call": ("return object() if calls == 5 else 1", FailureKind.BAD_OUTPUT, "type object"),
    "objects in the 5th call": ("return np.array([{}]) if calls == 5 else 1", FailureKind.BAD_OUTPUT, "dtype object"),
    "no answer to the 5th call": ("calls == 5 and time.sleep(600)\nreturn 1", FailureKind.TIMEOUT, "1 s"),
    "exit in the 5th call": ("import os; calls == 5 and os._exit(0)\nreturn 1", FailureKind.EXIT, "status 0"),
}


@pytest.mark.parametrize("case", BAD_INFERENCE)
def test_failing_call_is_told_truly(loaded, case: str) -> None:
    body, kind, words = BAD_INFERENCE[case]
    participant = loaded(inference(infer=body))
    pid = participant.tree.pid

    def ask() -> None:
        for call in range(1, 7):
            participant.infer(0, timeout_s=1 if kind is FailureKind.TIMEOUT and call == 5 else 300)

    with pytest.raises(ParticipantFailure) as caught:
        ask()
    failure = caught.value.failure
    assert failure.kind is kind
    assert words in failure.message
    assert failure.where == "infer_once (call 5)"
    assert not is_alive(pid)


def test_preprocessing_that_fails_is_named(loaded) -> None:
    participant = loaded(inference(preprocess="return observation['missing']"))
    with pytest.raises(ParticipantFailure) as caught:
        participant.infer({"a": 1}, 300)
    assert caught.value.failure.where == "preprocess_observation (call 1)"
    assert "KeyError" in caught.value.failure.message


# What a participant can do that looks for the descriptor of the wire and writes there itself.
FORGER = """
import gc, os, socket, struct, sys, time
import msgpack
wire = next(item for item in gc.get_objects() if type(item) is socket.socket)

def send(*parts, claimed=None):
    body = msgpack.packb(parts)
    os.write(wire.fileno(), struct.pack("<III", claimed or len(body), 0, 0) + body)

def garbage(data):
    os.write(wire.fileno(), data)
"""

FORGERIES = {
    "garbage": ("garbage(b'\\xff' * 100)", "claims shared memory"),
    "huge length": ("send('ok', 1, 1, 1, claimed=2**31)", "claims 2,147,483,648 bytes"),
    "never complete": ("garbage(bytes([16, *[0] * 11, 1])); time.sleep(600)", "did not return within"),
    "wrong shape": ("send('ok', 1)", "not a valid message"),
    "no message": ("send()", "not a valid message"),
    "wrong word": ("send(3, 1, 1, 1)", "not a valid message"),
    "negative time": ("send('ok', 1, 1, -5)", "nanoseconds"),
    "time that is no number": ("send('ok', 1, float('nan'), 1)", "nanoseconds"),
    "time longer than it was": ("send('ok', 1, 1, 10**15)", "reports 1000000000000001 ns"),
    "report of the host's fault": ("send('error', 'infrastructure', 'x', 'y', None, None)", "not a valid message"),
    "report of a strange form": ("send('error', ['x'], 'x', 'y', None, None)", "not a valid message"),
    "progress nobody asked for": ("send('progress', 1)", "not a valid message"),
    "closed wire": ("wire.close(); time.sleep(600)", "closed its connection"),
}


@pytest.mark.parametrize("case", FORGERIES)
def test_forged_answer_is_bad_output_and_never_a_crash_or_a_hang(loaded, case: str, monkeypatch) -> None:
    from a2perf.submission.evaluator.process import participant_process

    monkeypatch.setattr(participant_process, "ENDING_GRACE_S", 0.5)
    body, words = FORGERIES[case]
    participant = loaded(inference(top=FORGER, infer=body))
    with pytest.raises(ParticipantFailure) as caught:
        participant.infer(0, timeout_s=1 if case == "never complete" else 300)
    failure = caught.value.failure
    assert failure.kind is (FailureKind.TIMEOUT if case == "never complete" else FailureKind.BAD_OUTPUT)
    assert words in failure.message


@pytest.mark.parametrize("when", ["before it is asked", "twice"])
def test_answer_to_a_question_that_was_not_asked_is_refused(loaded, when: str) -> None:
    participant = loaded(inference(top=FORGER, infer="send('ok', 1, 1, 1); return 1"))
    participant.infer(0, timeout_s=300)
    time.sleep(0.2)
    with pytest.raises(ParticipantFailure, match="before the request"):
        participant.infer(0, 300) if when == "twice" else participant.load_policy({}, 300)


# --- the evaluator's own end ------------------------------------------------------------------------------------------


def test_interrupt_of_the_evaluator_kills_the_tree(submission, process, request, tmp_path: Path) -> None:
    # a suite started in the background of a shell ignores the signal
    request.addfinalizer(functools.partial(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT)))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = submission(train="import time\ndef train():\n    print('trains', flush=True)\n    time.sleep(600)")
    participant = process(folder, mode="train")
    log = tmp_path / "bundle" / "logs" / "stdout.log"

    def interrupt() -> None:
        until(lambda: log.exists() and "trains" in log.read_text())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    participant.start()
    pid = participant.tree.pid
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        participant.train({})
    assert not is_alive(pid)


EVALUATOR = """
import sys
from pathlib import Path
from tests.participants import make_participant
participant = make_participant(Path(sys.argv[1]), mode="train", logs=Path(sys.argv[2]))
participant.start()
print(participant.tree.pid, participant.tree.tree_root, flush=True)
participant.train({})
"""


def test_nothing_outlives_an_evaluator_killed_with_sigkill(submission, tmp_path: Path) -> None:
    folder = submission(
        train="""
        import os, signal, subprocess, sys, time
        def train():
            code = "import os, signal, time; os.setsid(); signal.signal(15, signal.SIG_IGN); " \\
                   "os.fork(); open(str(os.getpid()), 'w').close(); time.sleep(600)"
            subprocess.Popen([sys.executable, "-S", "-c", code], cwd=os.environ["HOME"] and "/proc/self/cwd/../pids")
            time.sleep(600)
        """
    )
    pids = tmp_path / "pids"
    pids.mkdir()
    evaluator = Child(
        [sys.executable, "-c", EVALUATOR, str(folder), str(tmp_path / "logs")], stdout=subprocess.PIPE, text=True
    )
    assert evaluator.stdout is not None
    with evaluator, evaluator.stdout:
        known = [int(word) for word in evaluator.stdout.readline().split()]
        until(lambda: len(list(pids.iterdir())) == 2)
        known += [int(path.name) for path in pids.iterdir()]
        assert all(map(is_alive, known))
        evaluator.send_signal(signal.SIGKILL)
        evaluator.wait(300)
        until(lambda: not any(map(is_alive, known)))


def test_interpreter_without_the_worker_is_the_hosts_fault(submission, process, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="could not be started"):
        process(submission(), python=tmp_path / "python").start()
    with pytest.raises(InfrastructureError, match="the participant process could not be started"):
        process(submission(), python="/bin/false").start()


def test_exit_that_hangs_is_cut_short(submission, process, monkeypatch) -> None:
    from a2perf.submission.evaluator.process import participant_process

    monkeypatch.setattr(participant_process, "CLOSE_GRACE_S", 0.3)
    code = "import atexit, time\natexit.register(time.sleep, 60)\ndef train(): pass"
    with process(submission(train=code), mode="train") as participant:
        participant.start()
        participant.train({})
    assert participant.ending is not None
    assert participant.ending.killed
