"""The pages of file schemas: the fields of every record that a2perf writes, and a JSON Schema of each."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import msgspec

import a2perf
from a2perf import records
from docs.building.markdown import code, described_with_bases, summary, table

_SOURCE = Path(a2perf.__file__).parent
_UNITS = {
    "s": "s",
    "ns": "ns",
    "bytes": "bytes",
    "kwh": "kWh",
    "w": "W",
    "hz": "1/s",
    "kg": "kg",
    "gb": "GB",
    "j": "J",
    "percent": "%",
}
_PAGE_ROW = re.compile(r"^\| (`[^|]*`) \| (.*) \|$", re.MULTILINE)


def all_records() -> dict[str, list[type[msgspec.Struct]]]:
    """Returns the records by module, those of ``a2perf.records`` first."""
    found: dict[str, list[type[msgspec.Struct]]] = {"a2perf.records": []}
    for path in sorted(_SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^class \w+\(.*(Record|msgspec\.Struct)", text, re.MULTILINE):
            module = importlib.import_module(".".join(path.relative_to(_SOURCE.parent).with_suffix("").parts))
            here = [
                kind
                for kind in vars(module).values()
                if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
            ]
            found[module.__name__] = [kind for kind in here if kind is not records.Record]
    return {module: kinds for module, kinds in found.items() if kinds}


def write(page: Path, schemas: Path, run_record: Path) -> None:
    """Writes the page, and one JSON Schema per record into ``schemas``.

    Args:
        page: file to write.
        schemas: folder of the JSON files; the page links to them, so it is beside the page.
        run_record: the page with tables that describe the fields of the manifest.
    """
    schemas.mkdir(parents=True, exist_ok=True)
    page_of_runs = run_record.read_text(encoding="utf-8")
    by_hand = _meanings(page_of_runs.replace("](#", f"]({run_record.name}#"))  # anchors of that page, not of this one
    text = [
        "# File schemas",
        "",
        "Every file that a2perf writes is a typed record. A reader accepts records with a `schema` up to its own; it "
        "ignores unknown fields and fills in defaults for missing ones. The suffix of a field's name is its unit. "
        "[The record of a run](run_record.md) explains the files.",
        "",
    ]
    for module, kinds in all_records().items():
        text += [f"## {module}", ""]
        for kind in kinds:
            text += [f"### {kind.__name__}", "", summary(kind), ""]
            if name := _json_schema(module, kind, schemas):
                text += [f"{{download}}`JSON Schema <{schemas.name}/{name}>`", ""]
            said = described_with_bases(kind)
            if module == "a2perf.records":
                said = {**by_hand, **said}
            rows = [_row(kind, field, said) for field in msgspec.structs.fields(kind)]
            text.append(table(["field", "type", "unit", "default", "meaning"], rows))
    page.write_text("\n".join(text), encoding="utf-8")


def _row(kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo, said: dict[str, str]) -> list[str]:
    annotations: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        annotations |= vars(base).get("__annotations__", {})
    return [
        code(field.encode_name),
        code(annotations.get(field.name, "")),
        _UNITS.get(field.name.rpartition("_")[2], "") if "_" in field.name else "",
        _default(field),
        said.get(field.name, ""),
    ]


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return "empty"
    if field.default is msgspec.NODEFAULT:
        return "required"
    if field.default is msgspec.UNSET:
        return "absent"
    return code(msgspec.json.encode(field.default, enc_hook=str).decode() or "null")


def _meanings(page: str) -> dict[str, str]:
    """Returns the second column of a page's tables by the names in the first."""
    rows = _PAGE_ROW.findall(page)
    return {name: meaning for names, meaning in rows for name in re.findall(r"`(\w+)`", names)}


def _json_schema(module: str, kind: type[msgspec.Struct], folder: Path) -> str | None:
    try:
        made = msgspec.json.schema(kind)
    except TypeError:  # a field of a type that JSON cannot express: the record is only a part of other records
        return None
    name = f"{module.removeprefix('a2perf.')}.{kind.__name__}.json"
    (folder / name).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return name
