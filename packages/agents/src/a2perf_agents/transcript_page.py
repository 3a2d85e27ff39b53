"""Transcripts of runs on a page: per episode what the agent saw, asked and was answered, and the return.

The page shows the first, the last and the failed episodes, at most ``MOST_EPISODES`` per run and ``MOST_TEXT``
characters per page; it states the number of left out parts. Every text is escaped by the template.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import jinja2

from a2perf.plain_text import plain_text
from a2perf.report.page import render
from a2perf.report.tables import Quantity, quantity_text
from a2perf.runs.run import Run
from a2perf_agents.transcripts import MOST_CHARACTERS, EpisodeTranscript, Exchange, SpokenText
from a2perf_agents.use import transcripts_in, use_of

MOST_EPISODES = 6
"""Episodes of a run on the page."""
MOST_TEXT = 1_500_000
"""Characters of all transcripts of a page."""
_HASH = 16


@dataclasses.dataclass(frozen=True)
class ShownMessage:
    """A message on the page; ``note`` states what is left out."""

    role: str
    text: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ShownStep:
    """One exchange on the page; ``summary`` is the first line of the answer."""

    title: str
    summary: str
    facts: str
    texts: tuple[ShownMessage, ...]


@dataclasses.dataclass(frozen=True)
class ShownEpisode:
    """One episode on the page.

    Attributes:
        failed: whether it failed, or a call in it.
        drawn: whether there are pictures of the pages.
    """

    title: str
    facts: str
    failed: bool
    drawn: bool
    steps: tuple[ShownStep, ...]
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ShownTranscript:
    """The transcripts of a run on the page; ``note`` states which episodes are shown."""

    episodes: tuple[ShownEpisode, ...]
    note: str


class TranscriptBudget:
    """Counts the characters of the transcripts of one page."""

    def __init__(self, most: int = MOST_TEXT) -> None:
        self.left = most

    def take(self, text: str) -> str:
        """Returns the beginning of a text that still fits."""
        taken = text[: max(0, self.left)]
        self.left -= len(taken)
        return taken


def transcript_page(runs: Sequence[Run]) -> str:
    """Returns one HTML page with the transcripts of the runs that called a model; it needs no network."""
    budget = TranscriptBudget()
    shown = [(run.key, shown_transcript(run, budget)) for run in runs]
    loader = jinja2.PackageLoader("a2perf_agents", "templates")
    return render(
        "transcripts.html",
        loader=loader,
        styles=("page", "transcript"),
        scripts=("chart", "transcript"),
        runs=[one for one in shown if one[1] is not None],
    )


def shown_transcript(run: Run, budget: TranscriptBudget) -> ShownTranscript | None:
    """Returns the transcripts of a run; None if it recorded none."""
    use = use_of(run)
    if use is None:
        return None
    scopes = [scope for scope in use.usage.scopes if scope.episode is not None]
    returns = _episode_facts(run)
    failed = {
        (scope.task, scope.episode)
        for scope in scopes
        if scope.usage.errors or returns.get((scope.task, scope.episode), ("", False))[1]
    }
    every = [(scope.task, scope.episode) for scope in scopes]
    chosen = set([*every[:1], *every[-1:], *(place for place in every if place in failed)][:MOST_EPISODES])
    for place in every:
        if len(chosen) < min(MOST_EPISODES, 3):
            chosen.add(place)
    found = transcripts_in(run, lambda task, episode: (task, episode) in chosen or not every)
    if not found:
        return None
    episodes = tuple(
        _shown_episode(
            transcript,
            *returns.get((transcript.scope.task, transcript.scope.episode), ("", False)),
            _is_drawn(run, transcript),
            budget,
        )
        for transcript in found[:MOST_EPISODES]
    )
    note = f"{len(episodes)} of {len(every)} episodes: the first, the last and failed ones." if every else ""
    return ShownTranscript(episodes, note if len(episodes) < len(every) else "")


def _episode_facts(run: Run) -> dict[tuple[str, int | None], tuple[str, bool]]:
    """Returns a sentence per episode, and whether it failed."""
    found: dict[tuple[str, int | None], tuple[str, bool]] = {}
    for task, episodes in run.episodes.items():
        for episode in episodes:
            reward = quantity_text(Quantity(value=episode.episode_return))
            parts = [f"return {reward}", f"{episode.length} steps"]
            parts += [] if episode.success is None else ["success" if episode.success else "no success"]
            parts += [plain_text(episode.termination.replace("_", " "))[:80]] if episode.termination else []
            found[task, episode.index] = (", ".join(parts), episode.success is False)
    return found


def _shown_episode(
    transcript: EpisodeTranscript, facts: str, failed: bool, drawn: bool, budget: TranscriptBudget
) -> ShownEpisode:
    scope = transcript.scope
    task = plain_text(scope.task)[:100]
    name = scope.phase if scope.episode is None else f"Episode {scope.episode}"
    errors = [exchange for exchange in transcript.exchanges if exchange.answer is None]
    steps = tuple(_shown_step(exchange, budget) for exchange in transcript.exchanges)
    note = f"{transcript.left_out} exchanges in the middle are left out." if transcript.left_out else ""
    if errors:
        facts = ", ".join(part for part in (facts, f"{len(errors)} failed calls") if part)
    return ShownEpisode(f"{name} of {task}" if task else name, facts, failed or bool(errors), drawn, steps, note)


def _is_drawn(run: Run, transcript: EpisodeTranscript) -> bool:
    if transcript.scope.episode is None:
        return False
    names = {PurePosixPath(media.name).stem for media in run.details.media if media.name.endswith(".png")}
    return f"episode_{transcript.scope.episode:03d}" in names


def _panel(exchange: Exchange) -> str:
    answer = exchange.call.answer
    if answer is None or exchange.answer is None:
        return exchange.call.outcome.value.replace("_", " ")
    if exchange.asked is None:
        return f"{answer.response_bytes} bytes"
    line = exchange.answer.text.strip().partition("\n")[0]
    return plain_text(line)[:80] or "(empty)"


def _shown_step(exchange: Exchange, budget: TranscriptBudget) -> ShownStep:
    request, answer = exchange.call.call, exchange.call.answer
    facts = []
    if answer is not None:
        if answer.usage is not None:
            facts.append(f"{answer.usage.tokens_in} tokens in, {answer.usage.tokens_out} out")
        facts.append(quantity_text(Quantity(value=answer.total_s, unit="s")))
    if exchange.repeated:
        plural = "" if exchange.repeated == 1 else "s"
        facts.append(f"{exchange.repeated} earlier message{plural} not repeated")
    texts = [_shown_text(text, budget.take) for text in exchange.asked or ()]
    if exchange.asked is None:
        texts.append(_redacted("request", request.request_bytes, request.sha256))
    if answer is None or exchange.answer is None:
        message = "" if answer is None else answer.message[:MOST_CHARACTERS]
        texts.append(ShownMessage("error", budget.take(message), "" if message else "no answer"))
    elif exchange.asked is None:
        texts.append(_redacted("answer", answer.response_bytes, answer.sha256))
    else:
        texts.append(_shown_text(exchange.answer, budget.take))
    outcome = "" if exchange.answer is not None else f": {_panel(exchange)}"
    return ShownStep(f"Call {request.call}{outcome}", _panel(exchange), " · ".join(facts), tuple(texts))


def _redacted(role: str, size: int, sha256: str) -> ShownMessage:
    return ShownMessage(role, "", f"redacted: {size} bytes, SHA-256 {sha256[:_HASH]}…")


def _shown_text(spoken: SpokenText, take: Callable[[str], str]) -> ShownMessage:
    text = take(spoken.text)
    missing = spoken.left_out + len(spoken.text) - len(text)
    note = f"{missing} further characters are left out" if missing else ""
    return ShownMessage(plain_text(spoken.role), text, note)
