"""Web navigation as text: what a language model reads and writes, with ``observation="text"``."""

from a2perf_agents.websites.actions import TextAction, parse_action
from a2perf_agents.websites.instruction import FIELD_NAMES, write_composed_instruction, write_instruction
from a2perf_agents.websites.view import TextView

__all__ = ("FIELD_NAMES", "TextAction", "TextView", "parse_action", "write_composed_instruction", "write_instruction")
