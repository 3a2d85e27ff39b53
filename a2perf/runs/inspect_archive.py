"""The members of a ``.eval`` file of inspect_ai: a zip with members that are stored, deflated or compressed with zstd.

The file is untrusted: members are read one at a time with a bound on their size after decompression, by exact names,
and nothing is written to disk. Format: the zip application note of PKWARE, where method 93 is zstd.
"""

from __future__ import annotations

import importlib
import io
import struct
import zipfile
import zlib
from typing import IO, BinaryIO, cast

ZSTD = 93
MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 256 << 20
_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_ZSTD_MISSING = (
    "the members are compressed with zstd, and no decompressor is installed; install zstandard, or convert the log "
    "with `inspect log convert --to json`"
)


class InspectArchiveError(ValueError):
    """A ``.eval`` file cannot be read; the text is the reason."""


class InspectArchive:
    """Reads members by name.

    Args:
        stream: the file; it can seek.
        total: most bytes that all members together may have after decompression.

    Raises:
        InspectArchiveError: it is not a zip, is damaged, or has too many members.
    """

    def __init__(self, stream: BinaryIO, total: int) -> None:
        self._stream = stream
        self._left = total
        try:
            self._archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
            raise InspectArchiveError(f"not a zip file, or it was cut off ({error})") from error
        infos = self._archive.infolist()
        if len(infos) > MAX_MEMBERS:
            raise InspectArchiveError(f"{len(infos)} members; at most {MAX_MEMBERS} are read")
        # Of a log that was written again, the last member of a name counts.
        self._members = {info.filename: info for info in infos}

    def names(self) -> list[str]:
        """Returns the names of the members, sorted."""
        return sorted(self._members)

    def read(self, name: str) -> bytes:
        """Returns the content of a member.

        Raises:
            KeyError: it does not exist.
            InspectArchiveError: it is damaged, encrypted, too large, or its compression is unknown.
        """
        info = self._members[name]
        limit = min(MAX_MEMBER_BYTES, self._left)
        try:
            with self._opened(info) as stream:
                data = stream.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError, struct.error) as error:
            if isinstance(error, InspectArchiveError):
                raise
            raise InspectArchiveError(f"{name} is damaged ({type(error).__name__}: {error})") from error
        if len(data) > limit:
            raise InspectArchiveError(f"{name} unpacks to more than {limit} bytes")
        if info.compress_type == ZSTD and zlib.crc32(data) != info.CRC:
            raise InspectArchiveError(f"{name} is damaged (wrong checksum)")
        self._left -= len(data)
        return data

    def _opened(self, info: zipfile.ZipInfo) -> IO[bytes]:
        if info.compress_type != ZSTD:
            return self._archive.open(info)
        self._stream.seek(info.header_offset)
        header = _LOCAL_HEADER.unpack(self._stream.read(_LOCAL_HEADER.size))
        if header[0] != _LOCAL_MAGIC or info.flag_bits & 1:
            raise InspectArchiveError(f"{info.filename} is damaged or encrypted")
        self._stream.seek(header[9] + header[10], io.SEEK_CUR)
        if info.compress_size > MAX_MEMBER_BYTES:
            raise InspectArchiveError(f"{info.filename} has {info.compress_size} bytes, at most {MAX_MEMBER_BYTES}")
        return zstd_reader(self._stream.read(info.compress_size))


def zstd_reader(data: bytes) -> IO[bytes]:
    """Returns a stream that decompresses as far as it is read.

    Raises:
        InspectArchiveError: no decompressor is installed.
    """
    try:
        stream = importlib.import_module("zstandard").ZstdDecompressor().stream_reader(data)
    except ImportError:
        try:
            pyarrow = importlib.import_module("pyarrow")
        except ImportError:
            raise InspectArchiveError(_ZSTD_MISSING) from None
        stream = pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd")
    return cast(IO[bytes], stream)
