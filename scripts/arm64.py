"""Runs tests of the core in an emulated ARM64 system: a Debian root for ARM64 under build/arm64, executed by QEMU.

Needs root, debootstrap and a static qemu-aarch64 of QEMU 10 or later (Debian: qemu-user of trixie or of
bookworm-backports; 7.2 refuses PR_SET_CHILD_SUBREAPER, without which no guard starts). The packages are those of
requirements.lock; PyBullet has no wheel for ARM64. Further arguments go to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "build" / "arm64"
SITE = "opt/venv/lib/python3.11/site-packages"
DEBIAN, PACKAGES = "bookworm", "python3,python3-venv,ca-certificates,bubblewrap,git"
WITHOUT_A_WHEEL = {"pybullet"}
BINFMT = Path("/proc/sys/fs/binfmt_misc")
ENTRY = "a2perf-aarch64"
MAGIC = (
    r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
)
TESTS = [
    "tests/golden",
    "tests/domains",
    "tests/metrics",
    "tests/runs",
    "tests/cli",
    "tests/sandbox",
    "tests/fuzz",
    "tests/submission/test_protocol.py",
    "tests/submission/adapters",
    "tests/test_storage.py",
    "tests/test_stranger_files.py",
    "tests/test_plain_text.py",
]
NOT_EMULATED = {
    "tests/metrics/trackers/test_process_tree.py::test_memory_threads_and_processes_of_the_whole_tree": "threads",
    "tests/metrics/trackers/test_process_tree.py::test_guard_is_followed_but_not_counted": "threads",
    "tests/metrics/trackers/test_sampler.py::test_numbers_of_a_run_agree_with_each_other_and_with_the_kernel": "memory",
    "tests/metrics/trackers/test_sampler.py::test_a_sampler_that_was_never_attached_stops_with_an_empty_report": "slow",
    "tests/sandbox/test_guard_accounting.py::test_anonymous_memory_pipes_and_sockets_are_counted": "memory",
    "tests/sandbox/test_sandbox_process.py::test_memory_of_one_process_is_limited": "limits",
    "tests/sandbox/test_view.py::test_network_brings_the_names_of_the_network": "network",
}
"""Tests that see QEMU's own threads, memory, limits and speed, and one of a network that the root does not have.

Bubblewrap does not run at all: QEMU refuses new user namespaces.
"""
INSIDE = """
set -e
mount --bind {root} {root}
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount -t sysfs sys {root}/sys
mount -t tmpfs tmp {root}/tmp
mkdir -p {root}{repository} {root}/before
mount --bind {repository} {root}{repository}
cd {root}
pivot_root . before
umount -l /before
cd {repository}
exec env -i HOME=/root PATH=/opt/venv/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 OMP_NUM_THREADS=1 "$@"
"""


def main() -> int:
    """Makes the root if there is none, and returns pytest's exit status."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    missing = [
        name
        for name, found in (("qemu-user-static", emulator), ("debootstrap", shutil.which("debootstrap")))
        if not found
    ]
    if os.geteuid() or missing:
        print(f"arm64: needs root{' and apt-get install ' + ' '.join(missing) if missing else ''}", file=sys.stderr)
        return 2
    assert emulator
    if not (BINFMT / "register").exists():
        run("mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT))
    if (BINFMT / ENTRY).exists():
        (BINFMT / ENTRY).write_text("-1")
    (BINFMT / "register").write_text(f":{ENTRY}:M::{MAGIC[0]}:{MAGIC[1]}:{emulator}:FP")
    try:
        if not (ROOT / "made").exists():
            make_root()
        inside = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "bash",
            "-c",
            INSIDE.format(root=ROOT, repository=REPOSITORY),
            "-",
        ]
        pytest = ["python", "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow"]
        pytest += ["-n", str(os.cpu_count()), *(f"--deselect={name}" for name in NOT_EMULATED)]
        return subprocess.run([*inside, *pytest, *(sys.argv[1:] or TESTS)], check=False).returncode
    finally:
        (BINFMT / ENTRY).write_text("-1")


def make_root() -> None:
    """Installs Debian, the pinned packages and this checkout; the packages are unpacked without emulation."""
    shutil.rmtree(ROOT, ignore_errors=True)
    run("debootstrap", "--arch=arm64", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, str(ROOT))
    run("chroot", str(ROOT), "python3", "-m", "venv", "--without-pip", "/opt/venv")
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (REPOSITORY / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    wanted = [f"{name}=={version}" for name, version in pinned if name not in WITHOUT_A_WHEEL]
    for packages in (wanted, ["--no-build-isolation", "--config-settings", "editable_mode=compat", "-e", "."]):
        run(
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--python-version",
            "3.11",
            "--python-platform",
            "aarch64-manylinux_2_28",
            "--target",
            str(ROOT / SITE),
            *packages,
        )
    for script in (ROOT / SITE / "bin").iterdir():
        text = script.read_bytes().partition(b"\n")[2]
        (ROOT / "opt/venv/bin" / script.name).write_bytes(b"#!/opt/venv/bin/python\n" + text)
        (ROOT / "opt/venv/bin" / script.name).chmod(0o755)
    (ROOT / "made").touch()


def run(*command: str) -> None:
    """Runs a command in the checkout; its failure ends this script."""
    subprocess.run(command, cwd=REPOSITORY, check=True)


if __name__ == "__main__":
    sys.exit(main())
