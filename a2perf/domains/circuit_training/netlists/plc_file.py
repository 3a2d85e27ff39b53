"""Placement files (``.plc``): a header of comments, then ``index x y orientation fixed`` for each placed node.

Some keys of the header give the sizes of canvas and grid; the netlist's leading comments may contain them, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS, netlist_paths, open_netlist
from a2perf.errors import UserError

_NUMBER = r"([-+0-9.eE]+)"
# What a leading comment gives; its last numbers count. The first pattern that fits decides.
_KEYS = {
    re.compile(rf"Width : {_NUMBER}\s+Height : {_NUMBER}"): "size",
    re.compile(rf"FP bbox: \{{{_NUMBER} {_NUMBER}\}} \{{{_NUMBER} {_NUMBER}\}}"): "size",
    re.compile(r"Columns : (\d+)\s+Rows : (\d+)"): "grid",
    re.compile(rf"Routes per micron, hor : {_NUMBER}\s+ver : {_NUMBER}"): "routes",
    re.compile(rf"Routes used by macros, hor : {_NUMBER}\s+ver : {_NUMBER}"): "macro_routes",
    re.compile(r"Smoothing factor : (\d+)"): "smooth_range",
    re.compile(rf"^#\s*Blockage : {_NUMBER} {_NUMBER} {_NUMBER} {_NUMBER} {_NUMBER}"): "blockage",
    re.compile(r"Block : (\S+)"): "block",
}
_MAX_COMMENT_LINE = 2**20  # bytes; a longer one is not a comment that anybody wrote

Blockage = tuple[float, float, float, float, float]


class PlacementFileError(UserError, ValueError):
    """A placement file is not one; the message names the file and the line."""


@dataclass(frozen=True)
class Header:
    """What leading comments say; None or empty where they do not.

    Attributes:
        width, height: canvas, um.
        blockages: low x, low y, high x, high y (um) and rate of each.
        routes: horizontal and vertical tracks per um.
        macro_routes: tracks per um that hard macros take, horizontally and vertically.
        smooth_range: cells to either side over which congestion is smoothed.
    """

    width: float | None = None
    height: float | None = None
    columns: int | None = None
    rows: int | None = None
    block: str | None = None
    blockages: tuple[Blockage, ...] = ()
    routes: tuple[float, float] | None = None
    macro_routes: tuple[float, float] | None = None
    smooth_range: int | None = None


def required_sizes(header: Header, placement: str | Path) -> tuple[float, float, int, int]:
    """Returns width and height of the canvas (um), and columns and rows of its grid.

    Raises:
        PlacementFileError: one of the two lines is missing from the header; a default would be another canvas.
    """
    if not header.width or not header.height:
        raise PlacementFileError(
            f"{placement}: the header has no canvas size: the line `# Width : ...  Height : ...` is missing",
            hint="add it above the first node, for example `# Width : 356.592  Height : 356.640`, in um",
        )
    if not header.columns or not header.rows:
        raise PlacementFileError(
            f"{placement}: the header has no grid: the line `# Columns : ...  Rows : ...` is missing",
            hint="add it above the first node, for example `# Columns : 24  Rows : 21`",
        )
    return header.width, header.height, header.columns, header.rows


class Placed(NamedTuple):
    """One line of a placement: node index, centre (um), orientation (``-`` for none) and whether it is fixed.

    Attributes:
        line: its number in the file that it was read from.
    """

    node: int
    x: float
    y: float
    orientation: str
    fixed: bool
    line: int = 0


def leading_comments(path: Path) -> Iterator[str]:
    """Yields the lines before the first that is neither a comment nor blank."""
    with open_netlist(path) as stream:
        while line := stream.readline(_MAX_COMMENT_LINE):
            text = line.decode(errors="replace").strip()
            if text and not text.startswith("#"):
                return
            yield text


def read_header(netlist_file: str | Path, init_file: str | Path | None = None) -> Header:
    """Reads the leading comments of a netlist and of its initial placement.

    The last size and the last grid found win, the placement's before the netlist's; so does the placement's block. The
    first file that has blockages gives them all, the netlist before the placement. Of a comma list of netlists only the
    first is looked at.

    Raises:
        PlacementFileError: the placement does not exist, or a number of a comment is none.
        NetlistError: the netlist does not exist.
    """
    paths = netlist_paths(netlist_file)[:1] if netlist_file else []
    if init_file:
        paths.append(_existing(Path(init_file)))
    found: dict[str, Any] = {}
    for path in paths:
        blockages: list[tuple[float, ...]] = []
        block = ""
        for text in leading_comments(path):
            matches = ((key, match) for pattern, key in _KEYS.items() if (match := pattern.search(text)))
            key, match = next(matches, ("", None))
            if match is None:
                continue
            if key == "block":
                block = block or match.group(1)
            elif key in ("grid", "smooth_range"):
                found[key] = tuple(int(number) for number in match.groups())
            elif key == "blockage":
                blockages.append(_floats(path, match.groups()))
            else:
                found[key] = _floats(path, match.groups()[-2:])
        found["block"] = block or found.get("block")
        found["blockages"] = found.get("blockages") or tuple(blockages)
    width, height = found.pop("size", (None, None))
    columns, rows = found.pop("grid", (None, None))
    (smooth_range,) = found.pop("smooth_range", (None,))
    return Header(width, height, columns, rows, smooth_range=smooth_range, **found)


def _floats(path: Path, texts: Sequence[str]) -> tuple[float, ...]:
    try:
        return tuple(float(text) for text in texts)
    except ValueError:
        raise PlacementFileError(
            f"{path}: {' '.join(texts)!r} in the leading comments are not numbers", hint="correct the comment"
        ) from None


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise PlacementFileError(f"{path}: no such placement file", hint="check the path")
    return path


def read_placement(path: str | Path) -> list[Placed]:
    """Reads the lines of a placement.

    Raises:
        PlacementFileError: there is no such file, or a line does not hold an index, two finite coordinates, an
            orientation (``-`` for none) and 0 or 1.
    """
    path = _existing(Path(path))
    rows = []
    with open_netlist(path) as stream:
        try:
            for number, line in enumerate(stream, start=1):
                tokens = line.split()
                if tokens and not tokens[0].startswith(b"#"):
                    rows.append(_row(path, number, [token.decode(errors="replace") for token in tokens]))
        except (OSError, EOFError) as error:
            raise PlacementFileError(f"{path}: cannot be read: {error}", hint="copy the file again") from error
    return rows


def _row(path: Path, line: int, tokens: list[str]) -> Placed:
    def fault(what: str) -> PlacementFileError:
        return PlacementFileError(
            f"{path}, line {line}: {what}", hint="a line is: index x y orientation fixed, as in `17 125.5 80 N 0`"
        )

    if len(tokens) != 5:
        raise fault(f"{len(tokens)} tokens instead of 5")
    index, x, y, orientation, fixed = tokens
    if not index.isdecimal() or len(index) > 12:
        raise fault(f"{index[:40]!r} is not an index of a node")
    try:
        position = float(x), float(y)
    except ValueError:
        raise fault(f"{x[:40]!r} {y[:40]!r} is not a position") from None
    if not all(math.isfinite(value) for value in position):
        raise fault(f"the position {x} {y} is not finite")
    if orientation != "-" and orientation not in ORIENTATIONS:
        raise fault(f"{orientation[:40]!r} is not an orientation; known are {', '.join(ORIENTATIONS)} and -")
    if fixed not in ("0", "1"):
        raise fault(f"the last token is {fixed[:40]!r} instead of 0 or 1")
    return Placed(int(index), *position, orientation, fixed == "1", line)


def format_placement(comments: Iterable[str], rows: Iterable[Placed], *, digits: int = 6) -> str:
    """Returns the text of a placement file.

    Args:
        digits: significant digits of the positions; by default six, as the earlier program wrote; 17 for all.
    """
    lines = [f"# {comment}".rstrip() for comment in comments]
    lines += [f"{at.node} {at.x:.{digits}g} {at.y:.{digits}g} {at.orientation} {int(at.fixed)}" for at in rows]
    return "\n".join(lines) + "\n"
