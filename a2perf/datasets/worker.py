"""``python -m a2perf.datasets.worker FOLDER``: a rollout worker for the plan in a working folder.

It reads numbers of blocks from standard input, one per line, and answers with JSON lines on standard output: one per
episode, then ``done`` or a failure. It exits as soon as its input ends, so no worker outlives its parent process.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, TextIO

import msgspec

from a2perf.datasets.plan import PLAN_FILE, Plan
from a2perf.datasets.rollout_worker import RolloutWorker
from a2perf.errors import UserError
from a2perf.records import Episode
from a2perf.storage import read_record
from a2perf.submission.evaluator.failures import ParticipantFailure


def main() -> None:
    """Collects the requested blocks."""
    work = Path(sys.argv[1])
    # An environment may print. Its output goes to standard error, because it would corrupt the JSON lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    wanted: queue.Queue[int] = queue.Queue()
    threading.Thread(target=_listen, args=(wanted,), daemon=True).start()
    try:
        plan = read_record(work / PLAN_FILE, Plan)
        rollouts = RolloutWorker(work, plan)
        _say(answers, {"kind": "ready"})
        while True:
            rollouts.collect(plan.blocks[wanted.get()], lambda episode: _say(answers, _summary(episode)))
            _say(answers, {"kind": "done"})
    except ParticipantFailure as error:
        _say(answers, {"kind": "participant", "failure": msgspec.to_builtins(error.failure)})
    except UserError as error:
        _say(answers, {"kind": "user", "message": error.message, "hint": error.hint, "status": int(error.exit_code)})
    except BrokenPipeError:
        pass
    except Exception:
        _say(answers, {"kind": "bug", "traceback": traceback.format_exc()})


def _listen(wanted: queue.Queue[int]) -> None:
    for line in sys.stdin:
        wanted.put(int(line))
    # From this thread sys.exit would end only the thread.
    os._exit(0)


def _say(stream: TextIO, message: dict[str, Any]) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def _summary(episode: Episode) -> dict[str, Any]:
    return {"kind": "episode", "index": episode.index, "return": episode.episode_return, "length": episode.length}


if __name__ == "__main__":
    main()
