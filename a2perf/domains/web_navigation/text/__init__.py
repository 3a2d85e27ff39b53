"""Web navigation as text: what a language model reads and writes.

``TextView`` shows an episode as text and gives text actions their meaning; ``write_instruction`` states the task. The
environments use them with ``observation="text"``.
"""

from a2perf.domains.web_navigation.text.actions import TextAction, parse_action
from a2perf.domains.web_navigation.text.instruction import FIELD_NAMES, write_composed_instruction, write_instruction
from a2perf.domains.web_navigation.text.view import TextView

__all__ = ("FIELD_NAMES", "TextAction", "TextView", "parse_action", "write_composed_instruction", "write_instruction")
