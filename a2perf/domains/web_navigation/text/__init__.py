"""Web navigation as text: what a language model reads and writes.

``TextView`` shows an episode as text and gives text actions their meaning; ``write_instruction`` states the task. The
environments use them with ``observation="text"``.
"""

from a2perf.domains.web_navigation.text.actions import (
    ActionText,
    TextAction,
    TextActionError,
    parse_action,
    screenshot_space,
    text_space,
)
from a2perf.domains.web_navigation.text.instruction import (
    FIELD_NAMES,
    phrasing_of,
    write_composed_instruction,
    write_instruction,
)
from a2perf.domains.web_navigation.text.view import TextView, is_primary

__all__ = (
    "FIELD_NAMES",
    "ActionText",
    "TextAction",
    "TextActionError",
    "TextView",
    "is_primary",
    "parse_action",
    "phrasing_of",
    "screenshot_space",
    "text_space",
    "write_composed_instruction",
    "write_instruction",
)
