"""The program ``a2perf-plc``: its flags, and its installation under the name ``plc_wrapper_main``."""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from a2perf._version import __version__
from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, UserError
from a2perf_placement.server.session import print_error, serve

PROGRAM = "plc_wrapper_main"
_MARK = "# written by a2perf-plc --install_as"
_MAX_SHEBANG_BYTES = 127  # of the first line, in kernels before 5.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code: 0, or 2 after a wrong input.

    Args:
        arguments: flags; those of the process by default.
    """
    flags = _parser().parse_args(arguments)
    try:
        if flags.install_as is not None:
            print(install(Path(flags.install_as)))
            return int(ExitCode.SUCCESS)
        if not flags.pipe_address or not flags.netlist_file:
            raise ConfigError(
                "--pipe_address and --netlist_file are required",
                hint="clients of circuit training start this program; see a2perf-plc --help",
            )
        # Ctrl-C reaches all processes of a terminal. The client may survive it; this process ends when the client does.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return serve(
                flags.pipe_address, flags.netlist_file, flags.macro_macro_x_spacing, flags.macro_macro_y_spacing
            )
        finally:
            signal.signal(signal.SIGINT, previous)
    except UserError as error:
        print_error(error)
        return int(error.exit_code)


def install(target: Path) -> Path:
    """Writes an executable that starts this program with this Python.

    Args:
        target: the file to write, or a folder, in which it is called ``plc_wrapper_main``.

    Returns:
        The path of the executable.

    Raises:
        ConfigError: another program is there, or the file cannot be written.
    """
    path = (target / PROGRAM if target.is_dir() else target).absolute()
    try:
        if path.is_symlink() or (path.exists() and _MARK.encode() not in path.read_bytes()[:1000]):
            raise ConfigError(
                f"{path} exists and is another program", hint="move it away, or name another file or folder"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_script())
        path.chmod(0o755)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}", hint="name a folder of yours") from error
    return path


def _script() -> str:
    """Returns a script that is a shell script for paths too long for a first line, and Python otherwise."""
    python = sys.executable
    # A client may run another Python and set PYTHONPATH or PYTHONHOME for it; this one must ignore them.
    trial = subprocess.run([python, "-E", "-c", f"import {__package__}"], capture_output=True, cwd=os.sep)
    option = "" if trial.returncode else "-E"
    first = f"#!{python} {option}".rstrip()
    if " " in python or len(os.fsencode(first)) > _MAX_SHEBANG_BYTES:
        # Both a shell and Python can read the second line; to Python it is a text.
        quoted = python.replace("'", "'\\''")
        first = f"#!/bin/sh\n'''exec' '{quoted}' {option} \"$0\" \"$@\" #'''"
    module = f"{__package__}.{Path(__file__).stem}"
    return f"{first}\n{_MARK}\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"


def _distance(text: str) -> float:
    value = float(text or 0)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a distance from 0 on")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="a2perf-plc",
        allow_abbrev=False,
        description="Serves the placement engine of a2perf to programs that were written for plc_wrapper_main. "
        "Such a program listens on a Unix socket and starts this one.",
    )
    parser.add_argument("--pipe_address", metavar="PATH", help="Unix socket on which the client listens")
    parser.add_argument("--netlist_file", metavar="FILE", help="netlist in protobuf text, or several with commas")
    for axis, direction in (("x", "horizontal"), ("y", "vertical")):
        parser.add_argument(
            f"--macro_macro_{axis}_spacing",
            metavar="UM",
            type=_distance,
            default=0.0,
            help=f"wanted {direction} distance between hard macros (0)",
        )
    parser.add_argument("--uid", metavar="ID", default="", help="accepted and ignored: it runs as who starts it")
    parser.add_argument("--gid", metavar="ID", default="", help="accepted and ignored")
    parser.add_argument(
        "--install_as",
        metavar="PATH",
        help=f"write an executable to this file, or to {PROGRAM} in this folder, and end",
    )
    parser.add_argument("--version", action="version", version=f"a2perf-plc {__version__}")
    return parser
