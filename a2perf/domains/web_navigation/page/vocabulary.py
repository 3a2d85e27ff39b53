"""Token tables: words to numbers, the same in every process.

Every word that the catalogue can show has a fixed number; only words of a user's own profile are added, in the order
in which they are met. ``NULL`` pads and is 0, ``OOV`` stands for words that found no place and is 1.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import gin

from a2perf.domains.web_navigation.page.nodes import PageNode
from a2perf.domains.web_navigation.page.primitives import CATALOGUE, GOLD, NO_PRIMITIVE, default_button
from a2perf.errors import ConfigError

NULL = "NULL"
OOV = "OOV"
MAX_VOCABULARY_SIZE = 15000
NO_CLASS = "NO_CLASS"
DUMMY_KEY = "_dummy"
VISITED = "visited"
SHOWN = "show"
_LARGEST_NUMBER = 150  # dollars: three things of 50
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tokenize(given: object) -> list[str]:
    """Splits a text: lower case, dots become spaces, runs of word characters or single other signs.

    ``None`` and the empty text have no tokens.
    """
    text = str(given)
    if text in ("", "None"):
        return []
    return _TOKEN.findall(text.replace(".", " ").lower())


@functools.cache
def built_in_words() -> tuple[str, ...]:
    """Every word of the catalogue; the position is the number."""
    texts: list[object] = [True, False, NO_CLASS, VISITED, SHOWN, DUMMY_KEY, "0", "$", *range(_LARGEST_NUMBER + 1)]
    texts += ["core connected submit-page", "container row col-md-12 order-md-1 needs-validation body div"]
    for key, gold in GOLD.items():
        texts += [key, *gold]
    for entry in CATALOGUE.values():
        if entry.name != NO_PRIMITIVE:
            texts += _texts(entry.build(0))
    texts += [*_texts(default_button(0, last=True)), *_texts(default_button(0, last=False))]
    return (NULL, OOV, *sorted({token for text in texts for token in tokenize(text)}))


def _texts(node: PageNode) -> Iterator[str]:
    yield from (node.listed_tag, node.text, node.placeholder, node.classes, node.choice, *node.options)
    for child in node.children:
        yield from _texts(child)


@functools.cache
def _built_in_table() -> Mapping[str, int]:
    return {word: number for number, word in enumerate(built_in_words())}


class VocabularyOverflowError(ConfigError):
    """A word found no place in a full vocabulary."""


class DistributedVocabulary:
    """A table of words that several users may grow together.

    Args:
        lock: held while words are added.
        words: mapping that holds the table; built-in words are added if it is empty.

    Raises:
        ConfigError: the size is too small for the built-in words.
    """

    def __init__(
        self,
        lock: AbstractContextManager[Any] | None = None,
        words: MutableMapping[str, int] | None = None,
        max_vocabulary_size: int = MAX_VOCABULARY_SIZE,
    ) -> None:
        least = len(built_in_words())
        if max_vocabulary_size < least:
            raise ConfigError(
                f"max_vocabulary_size is {max_vocabulary_size}", hint=f"the catalogue alone has {least} words"
            )
        self.lock: AbstractContextManager[Any] = nullcontext() if lock is None else lock
        self._words: MutableMapping[str, int] = {} if words is None else words
        self.max_vocabulary_size = max_vocabulary_size
        with self.lock:
            if len(self._words) == 0:
                self._words.update(_built_in_table())

    def add_to_vocabulary(self, tokens: Iterable[str]) -> None:
        """Gives consecutive numbers to the words that have none.

        Raises:
            VocabularyOverflowError: the table is full.
        """
        with self.lock:
            new = [token for token in dict.fromkeys(tokens) if token not in self._words]
            if not new:
                return
            following = max(self._words.values(), default=-1) + 1
            for number, token in enumerate(new, start=following):
                if number >= self.max_vocabulary_size:
                    raise VocabularyOverflowError(
                        f"no place for {token!r} among {self.max_vocabulary_size} words",
                        hint="raise max_vocabulary_size",
                    )
                self._words[token] = number

    def lookup(self, token: str) -> int:
        """Returns the number of a word, adding it; that of ``OOV`` where the table is full."""
        number = self._words.get(token)
        if number is None:
            try:
                self.add_to_vocabulary([token])
            except VocabularyOverflowError:
                return self._words[OOV]
            number = self._words[token]
        return number

    def __getitem__(self, token: str) -> int:
        return self._words[token]

    def __contains__(self, token: object) -> bool:
        return token in self._words

    def __len__(self) -> int:
        return len(self._words)

    def get_global_vocabulary(self) -> dict[str, int]:
        """Returns a copy of the table, for ``restore``."""
        return dict(self._words)

    get_vocabulary = save = get_global_vocabulary

    @property
    def local_vocab(self) -> dict[str, int]:
        """A copy of the table."""
        return self.get_global_vocabulary()

    global_vocab = local_vocab

    def restore(self, state: Mapping[str, int]) -> None:
        """Takes over the numbers of a saved table; words that are missing in it stay.

        Raises:
            ConfigError: the table is not one of words to different numbers, or contradicts the padding.
        """
        checked = _checked_table(state, self.max_vocabulary_size)
        with self.lock:
            merged = {**self._words, **checked}
            taken = set(checked.values())
            moved = [word for word, number in merged.items() if word not in checked and number in taken]
            following = max(merged.values()) + 1
            for number, word in enumerate(moved, start=following):
                merged[word] = number
            self._words.update(merged)

    @property
    def is_built_in(self) -> bool:
        """Whether the built-in words have their built-in numbers."""
        words = dict(self._words)
        return all(words.get(word) == number for word, number in _built_in_table().items())


class UnlockedVocabulary(DistributedVocabulary):
    """A table for one user."""


class LockedThreadedVocabulary(DistributedVocabulary):
    """A table shared by threads; a copy sent to another process gets a new lock."""

    def __init__(self, threading_lock: Any = None, max_vocabulary_size: int = MAX_VOCABULARY_SIZE) -> None:
        super().__init__(threading_lock or threading.Lock(), max_vocabulary_size=max_vocabulary_size)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = threading.Lock()


class LockedMultiprocessingVocabulary(DistributedVocabulary):
    """A table shared by processes.

    Args:
        shared_lock: lock of a ``multiprocessing.Manager``; one is started where none is given.
    """

    def __init__(
        self, shared_lock: Any = None, shared_dict: Any = None, max_vocabulary_size: int = MAX_VOCABULARY_SIZE
    ) -> None:
        self._manager = None
        if shared_lock is None or shared_dict is None:
            import multiprocessing

            self._manager = multiprocessing.Manager()
            shared_lock, shared_dict = self._manager.Lock(), self._manager.dict()
        super().__init__(shared_lock, shared_dict, max_vocabulary_size)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_manager": None}


class Vocabulary(DistributedVocabulary):
    """A user's view of a shared table."""

    def __init__(self, global_node: DistributedVocabulary, max_vocabulary_size: int = MAX_VOCABULARY_SIZE) -> None:
        super().__init__(global_node.lock, global_node._words, max_vocabulary_size)


VOCABULARIES: dict[str, type[DistributedVocabulary]] = {
    "threaded": LockedThreadedVocabulary,
    "unlocked": UnlockedVocabulary,
    "multiprocessing": LockedMultiprocessingVocabulary,
}


@gin.configurable("create_locked_vocab", module="a2perf.web_navigation")
def create_locked_vocab(
    multiprocessing: bool = False, max_vocabulary_size: int = MAX_VOCABULARY_SIZE
) -> DistributedVocabulary:
    """Creates a table that threads or processes share.

    Args:
        multiprocessing: share the table among processes instead of threads.
        max_vocabulary_size: number of words; further words share one index.
    """
    kind = LockedMultiprocessingVocabulary if multiprocessing else LockedThreadedVocabulary
    return kind(max_vocabulary_size=max_vocabulary_size)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Reads a saved table.

    Raises:
        ConfigError: the file is not one.
    """
    try:
        state = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a vocabulary file: {error}", hint="delete it, or save it again") from error
    try:
        return _checked_table(state, MAX_VOCABULARY_SIZE)
    except ConfigError as error:
        raise ConfigError(f"{path} is not a vocabulary file: {error.message}", hint=error.hint) from error


def _checked_table(state: Any, size: int) -> dict[str, int]:
    hint = "a table of words to different numbers, as save() returns"
    if not isinstance(state, Mapping):
        raise ConfigError(f"a vocabulary must be a table, got {type(state).__name__}", hint=hint)
    seen: dict[int, str] = {}
    for word, number in state.items():
        if not isinstance(word, str) or isinstance(number, bool) or not isinstance(number, int):
            raise ConfigError(f"{word!r}: {number!r} is not a word and its number", hint=hint)
        if not 0 <= number < size:
            raise ConfigError(f"{word!r} has the number {number}, outside 0 to {size - 1}", hint=hint)
        if number in seen:
            raise ConfigError(f"{word!r} and {seen[number]!r} have the same number {number}", hint=hint)
        seen[number] = word
    return dict(state)
