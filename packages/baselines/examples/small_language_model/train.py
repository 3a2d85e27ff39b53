"""Trains the model: it predicts the actions of the scripted text solver from instruction and page.

    python train.py --seconds 1800 --output weights/level_1.npz

Every example is new; designs are drawn for training and differ from those of the tasks. Needs PyTorch.
"""

from __future__ import annotations

from a2perf_baselines.learning.torch import frameworks  # noqa: F401  # isort: skip  reports what is missing

import argparse
import csv
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from network import Network, Shape, rotation
from prompt import END, VOCABULARY, encoded, prompt_of, question_of
from torch import Tensor, nn
from torch.nn import functional

from a2perf.domains.web_navigation.sites.designs import shipped_designs
from a2perf.domains.web_navigation.sites.generator import training_designs

sys.path.insert(1, str(Path(__file__).resolve().parents[3] / "agents" / "examples" / "text_solver"))
import reading

Example = tuple[list[int], int, str]
"""Tokens, the index of the first token of the answer, and its kind: the word of the action and the role of its line."""

BATCH_TOKENS = 4_000
LEAST_DRAWN = 0.2
"""Share of the examples of a kind that are learned from, however seldom they are wrong; of the worst kind, all are."""

READING_WEIGHT = 0.1
"""Weight of the loss on the tokens of the prompt."""

SHORTEST, LONGEST = 230, 600
"""Tokens of the longest examples at the beginning, and after half of the time; on short pages, it learns to copy.

No page of the tasks of level 1 is longer.
"""


class Transformer(nn.Module):  # type: ignore[misc]  # mypy does not follow the library
    """The network of ``network.py`` for training."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, deviation = shape.width, shape.width**-0.5
        deep = deviation / math.sqrt(2 * shape.layers)
        self.embedding = nn.Parameter(torch.randn(VOCABULARY, width) * deviation)
        self.blocks = nn.ModuleList()
        for _ in range(shape.layers):
            sizes = {
                "qkv": (width, 3 * width),
                "out": (width, width),
                "up": (width, 4 * width),
                "down": (4 * width, width),
            }
            self.blocks.append(
                nn.ParameterDict(
                    {
                        name: nn.Parameter(torch.randn(*size) * (deep if name in ("out", "down") else deviation))
                        for name, size in sizes.items()
                    }
                )
            )
        for name, table in zip(("cosine", "sine"), rotation(shape), strict=True):
            self.register_buffer(name, torch.from_numpy(table), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the logits of the next tokens, shape (batch, tokens, vocabulary), for tokens (batch, tokens)."""
        shape, (batch, count) = self.shape, tokens.shape
        cosine, sine = self.cosine[:count], self.sine[:count]
        hidden = self.embedding[tokens]
        for block in self.blocks:
            mixed = (_normalised(hidden) @ block["qkv"]).view(batch, count, 3, shape.heads, shape.head)
            query, key, value = mixed.permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(
                _rotated(query, cosine, sine), _rotated(key, cosine, sine), value, is_causal=True
            )
            hidden = hidden + seen.transpose(1, 2).reshape(batch, count, -1) @ block["out"]
            inner = torch.relu(_normalised(hidden) @ block["up"])
            hidden = hidden + (inner * inner) @ block["down"]
        logits: Tensor = _normalised(hidden) @ self.embedding.T
        return logits

    @torch.no_grad()
    def restore(self, network: Network) -> None:
        """Takes the weights of a network of the same shape."""
        self.embedding.copy_(torch.from_numpy(network.arrays["embedding"]))
        for number, block in enumerate(self.blocks):
            for name in block:
                block[name].copy_(torch.from_numpy(network.arrays[f"{number}.{name}"]))

    def exported(self) -> Network:
        """Returns the network for NumPy."""
        arrays = {"embedding": self.embedding.detach().numpy().copy()}
        for number, block in enumerate(self.blocks):
            arrays |= {f"{number}.{name}": block[name].detach().numpy().copy() for name in block}
        return Network(self.shape, arrays)


def _normalised(rows: Tensor) -> Tensor:
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6)


def _rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def examples(levels: tuple[int, ...], designs: int, seed: int) -> Iterator[Example]:
    """Yields the steps of solved episodes on designs of some levels, without end."""
    drawn: list[Any] = []
    for level in levels:
        shipped = set(shipped_designs(level))
        drawn += [design for design in training_designs(level, seed, designs) if design not in shipped]
    env = gymnasium.make("WebNavigation-v0", designs=drawn, num_websites=len(drawn), observation="text", seed=seed)
    observation, _ = env.reset(seed=seed)
    while True:
        action = reading.choose(observation)
        question = {"role": "user", "content": question_of(observation["instruction"], observation["page"])}
        prompt = prompt_of([question])
        yield [*prompt, *encoded(action), END], len(prompt), _kind(observation["page"], action)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()


def _kind(page: str, action: str) -> str:
    word, _, rest = action.partition(" ")
    element = re.search(rf"^{rest.partition(' ')[0]} (\w+)", page, re.MULTILINE)
    return f"{word} {element[1]}" if element else word


class Mistakes:
    """Share of wrong answers by kind of example, over about the last hundred of each; a new kind counts as wrong."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}

    def learn(self, kinds: list[str], wrong: list[bool]) -> None:
        """Takes over what a batch showed."""
        for kind, failed in zip(kinds, wrong, strict=True):
            self.shares[kind] = 0.99 * self.shares.get(kind, 1.0) + 0.01 * failed

    def drawn(self, kind: str) -> float:
        """Returns the share of the examples of a kind to learn from."""
        worst = max(self.shares.values(), default=0.0)
        return 1.0 if worst == 0.0 else max(LEAST_DRAWN, self.shares.get(kind, worst) / worst)


def batches(
    source: Iterator[Example], pool: int, random: np.random.Generator, used: Callable[[], float], mistakes: Mistakes
) -> Iterator[tuple[Tensor, Tensor, Tensor, list[str]]]:
    """Yields tokens, the tokens after them, the weights of the latter, each (batch, tokens), and the kinds.

    Examples of similar length share a batch. Kinds that are often wrong are drawn more often.

    Args:
        source: of examples.
        pool: examples that are sorted by length.
        random: order of the batches.
        used: returns the share of the time that is used up, which decides how long examples are.
        mistakes: decides how often each kind is drawn.
    """
    while True:
        longest = SHORTEST + min(2.0 * used(), 1.0) * (LONGEST - SHORTEST)
        short = (
            example for example in source if len(example[0]) <= longest and random.random() < mistakes.drawn(example[2])
        )
        found = sorted((next(short) for _ in range(pool)), key=lambda example: len(example[0]))
        parts, part = [], []
        for example in found:
            if part and (len(part) + 1) * len(example[0]) > BATCH_TOKENS:
                parts.append(part)
                part = []
            part.append(example)
        parts.append(part)
        for index in random.permutation(len(parts)):
            yield (*_padded(parts[index]), [kind for _, _, kind in parts[index]])


def _padded(part: list[Example]) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(tokens) for tokens, _, _ in part)
    rows = np.zeros((len(part), longest), dtype=np.int64)
    weights = np.zeros((len(part), longest), dtype=np.float32)
    for row, weight, (tokens, answer, _) in zip(rows, weights, part, strict=True):
        row[: len(tokens)] = tokens
        weight[1:answer] = READING_WEIGHT
        weight[answer : len(tokens)] = 1.0
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:]), torch.from_numpy(weights[:, 1:])


def main() -> None:
    """Trains for a time, and writes the network and its learning curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--levels", type=int, nargs="+", default=[1], choices=(1, 2, 3))
    parser.add_argument("--designs", type=int, default=600, help="per level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=Shape.width)
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--heads", type=int, default=Shape.heads)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--start", type=Path, help="weights to continue from, with examples of all lengths")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    model = Transformer(Shape(given.width, given.layers, given.heads))
    if given.start is not None:
        model.restore(Network.load(given.start))
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.rate, betas=(0.9, 0.98), weight_decay=0.05)
    began = time.monotonic()

    def used() -> float:
        return min((time.monotonic() - began) / given.seconds, 1.0)

    def curriculum() -> float:
        return used() if given.start is None else 1.0

    source = examples(tuple(given.levels), given.designs, given.seed)
    mistakes = Mistakes()
    stream = batches(source, 500, np.random.default_rng(given.seed), curriculum, mistakes)
    curve = given.output.with_suffix(".csv")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with curve.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("updates", "examples", "tokens", "wall_s", "processor_s", "loss", "actions_right"))
        _train(model, optimizer, stream, mistakes, given, used, writer, file)
    model.exported().save(given.output)
    print(f"{given.output}: {model.exported().parameters} weights, {given.output.stat().st_size / 1e6:.1f} MB")


def _train(
    model: Transformer,
    optimizer: Any,
    stream: Any,
    mistakes: Mistakes,
    given: argparse.Namespace,
    used: Any,
    writer: Any,
    file: Any,
) -> None:
    began, seen, tokens_seen = time.monotonic(), 0, 0
    losses, right = [], []
    for update, (tokens, following, weights, kinds) in enumerate(stream, 1):
        share = used()
        rate = given.rate * min(update / 50, 1.0) * (0.03 + 0.97 * 0.5 * (1.0 + math.cos(math.pi * share)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(tokens)
        logits = logits.float()
        each = functional.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none").view_as(weights)
        answers = weights == 1.0
        loss = (each * weights).sum() / weights.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen, tokens_seen = seen + len(tokens), tokens_seen + tokens.numel()
        losses.append(float(((each * answers).sum() / answers.sum()).detach()))
        # an action is right if each of its tokens is the most likely one
        wrong = ((logits.argmax(-1) != following) & answers).any(-1)
        right.append(1.0 - float(wrong.float().mean()))
        mistakes.learn(kinds, wrong.tolist())
        if update % 20 == 0 or share >= 1.0:
            row = (
                update,
                seen,
                tokens_seen,
                time.monotonic() - began,
                time.process_time(),
                np.mean(losses),
                np.mean(right),
            )
            writer.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in row])
            file.flush()
            print(
                f"{update:6d} updates {seen:8d} examples {row[3]:6.0f} s  loss {row[5]:.3f}  right {row[6]:.3f}",
                flush=True,
            )
            if update % 500 == 0:
                print("    wrong:", ", ".join(f"{kind} {share:.3f}" for kind, share in sorted(mistakes.shares.items())))
            losses, right = [], []
            model.exported().save(given.output)
        if share >= 1.0:
            return


if __name__ == "__main__":
    main()
