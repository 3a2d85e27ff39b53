"""Copies an uploaded folder or archive into a new folder: ``python -I -S unpack.py UPLOAD FOLDER BYTES``.

It runs in a sandbox, because a hostile archive can make any reader loop or grow. It prints why it refuses an upload,
and nothing if all of it was written. Standard library only. Refused are links and special files, names that lead out of
the folder, two members of one name, and more than ``ENTRIES`` members or ``BYTES`` bytes.
"""

import os
import stat
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

ENTRIES = 20_000
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_CHUNK = 1 << 20


class Refused(Exception):
    """The upload cannot be an entry; the message is for its entrant."""


def main(upload: Path, folder: Path, most: int) -> None:
    """Writes the content of an upload, and prints the reason if it is refused."""
    try:
        _write(upload, folder, most)
    except Refused as error:
        print(error)
    except MemoryError:
        print("reading the archive needs too much memory")
    except OSError as error:
        if error.errno is not None:
            raise  # the disk of the host, and not the archive
        print(f"the archive is damaged: {error}")
    except Exception as error:  # readers of archives raise anything
        text = str(error).partition("\n")[0].rstrip(":")
        print(f"the archive is damaged: {text or type(error).__name__}")


def _write(upload: Path, folder: Path, most: int) -> None:
    seen: set[str] = set()
    size = 0
    for name, mode, source in _members(upload):
        path = PurePosixPath(name)
        if "\\" in name or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise Refused(f"{name!r} leads out of the folder")
        key = str(path).casefold()
        if key in seen:
            raise Refused(f"two members are named {str(path)!r}")
        seen.add(key)
        if len(seen) > ENTRIES:
            raise Refused(f"it has more than {ENTRIES:,} files and folders")
        if stat.S_ISDIR(mode):
            (folder / path).mkdir(parents=True, exist_ok=True)
            continue
        if not stat.S_ISREG(mode) or source is None:
            raise Refused(f"{name!r} is a link or a special file; only files and folders are allowed")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with source, open(folder / path, "xb") as target:
            while part := source.read(_CHUNK):
                size += len(part)
                if size > most:
                    raise Refused(f"it unpacks to more than {most:,} bytes")
                target.write(part)
        (folder / path).chmod(0o755 if mode & 0o100 else 0o644)
    if not seen:
        raise Refused("it is empty")


def _members(upload: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """Yields name, mode and content of each member; the content of a link or a special file is None."""
    mode = upload.lstat().st_mode
    if stat.S_ISDIR(mode):
        yield from _of_folder(upload)
    elif not stat.S_ISREG(mode):
        raise Refused("it is a link or a special file, and neither a folder nor an archive")
    elif zipfile.is_zipfile(upload):
        with zipfile.ZipFile(upload) as packed:
            for one in packed.infolist():
                mode = one.external_attr >> 16
                kind = stat.S_IFDIR if one.is_dir() else stat.S_IFMT(mode) or stat.S_IFREG
                yield one.filename, kind | stat.S_IMODE(mode), packed.open(one) if kind == stat.S_IFREG else None
    elif upload.name.endswith(SUFFIXES):
        with tarfile.open(upload) as tar:
            for member in tar:
                kind = stat.S_IFDIR if member.isdir() else stat.S_IFREG if member.isreg() else stat.S_IFLNK
                yield member.name, kind | stat.S_IMODE(member.mode), tar.extractfile(member) if member.isreg() else None
    else:
        raise Refused(f"it is neither a folder nor an archive; archives are {', '.join(SUFFIXES)}")


def _of_folder(top: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    for above, folders, files in os.walk(top):
        for name in sorted([*folders, *files]):
            path = Path(above, name)
            mode = path.lstat().st_mode
            yield path.relative_to(top).as_posix(), mode, path.open("rb") if stat.S_ISREG(mode) else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
