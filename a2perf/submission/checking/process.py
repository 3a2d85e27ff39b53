"""``python -m a2perf.submission.checking.process RESULT``: one check in a separate process.

The request is read from standard input. Gin's configuration, the working directory and the signal handlers belong to
this process, so a check can run in a notebook or a thread.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType

import msgspec

from a2perf.errors import UserError
from a2perf.submission.checking.records import CheckRefusal, CheckReply, CheckRequest
from a2perf.submission.checking.trial import check_submission


def main() -> None:
    """Reads the request, checks, and writes a ``CheckReply`` to the file that the first argument names."""
    signal.signal(signal.SIGTERM, _interrupt)
    # not msgspec.json: names of files may be invalid Unicode, which it refuses
    request = msgspec.convert(json.load(sys.stdin), CheckRequest)
    try:
        outcome = check_submission(request)
    except UserError as error:
        reply = CheckReply(refusal=CheckRefusal(type(error).__name__, error.message, error.hint))
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        reply = CheckReply(outcome=outcome)
    Path(sys.argv[1]).write_text(json.dumps(msgspec.to_builtins(reply)))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ends the check as an interrupt does, which also ends the participant process and removes its folders."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
