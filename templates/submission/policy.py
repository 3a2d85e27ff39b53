"""The policy that `train.py` improves and `inference.py` uses: linear in its weights, in plain NumPy.

If actions are numbers (quadruped locomotion), there is one weight per action and observation. In all other tasks the
policy chooses one of the possible actions: each has a few features, and the one with the highest score wins. In an
environment that is not a2perf's they are the observation, with other weights for each action.
"""

from __future__ import annotations

import json
import re
import zlib

import numpy as np
from gymnasium import spaces

from a2perf.domains.web_navigation.page.vocabulary import UnlockedVocabulary
from a2perf.errors import UserError

OURS = {"mask", "dom_elements", "page"}  # observations of a2perf's tasks have one of these parts
BUCKETS = 512  # words of web navigation share this many weights
WORDS = UnlockedVocabulary().save()  # the number of each word in the observations of web navigation
CLICKED = [WORDS["button"], WORDS["a"]]
FILLED = [number for word, number in WORDS.items() if word.startswith("input_") or word == "select"]
STRING = r'"(?:[^"\\]|\\.)*"'


class Policy:
    """A policy with all weights 0.

    Args:
        env: the environment; only its spaces are read.
    """

    def __init__(self, env):
        space, self.seen = env.action_space, env.observation_space
        self.space = space if isinstance(space, spaces.Box) else None
        self.choices = None
        if isinstance(space, spaces.Dict):
            raise UserError("one action of this task is a whole placement", hint="a2perf init DIR --template placer")
        if not OURS.isdisjoint(getattr(self.seen, "spaces", ())):
            self.weights = np.zeros(BUCKETS)
            return
        try:
            inputs = spaces.flatdim(self.seen) + 1
        except (NotImplementedError, ValueError):
            raise UserError(f"this policy cannot read {self.seen}", hint="write your own in policy.py") from None
        if isinstance(space, spaces.Box):
            self.weights = np.zeros((int(np.prod(space.shape)), inputs))
        elif isinstance(space, spaces.Discrete):
            self.choices = np.arange(int(space.n)) + int(space.start)
            self.weights = np.zeros(len(self.choices) * inputs)
        else:
            raise UserError(f"this policy cannot act in {space}", hint="write your own in policy.py")

    def act(self, observation):
        """Returns the best action."""
        if self.space is not None:
            return self._bounded(self.weights @ self._inputs(observation))
        actions, index, value = self._candidates(observation)
        return actions[int(np.argmax(self._scores(index, value)))]

    def explore(self, observation, rng):
        """Returns a random action, and the gradient of the logarithm of its probability by the weights."""
        if self.space is not None:
            inputs = self._inputs(observation)
            spread = (self.space.high - self.space.low).ravel() / 20
            noise = rng.standard_normal(len(spread))
            gradient = np.outer(noise, inputs) / np.linalg.norm(inputs)
            return self._bounded(self.weights @ inputs + spread * noise), gradient / 100  # small, careful steps
        actions, index, value = self._candidates(observation)
        scores = self._scores(index, value)
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        chosen = int(rng.choice(len(chances), p=chances))
        gradient = np.zeros_like(self.weights)
        np.add.at(gradient, index, -chances[:, None] * value)
        np.add.at(gradient, index[chosen], value[chosen])
        return actions[chosen], gradient

    def _inputs(self, observation):
        return np.append(spaces.flatten(self.seen, observation), 1.0)

    def _candidates(self, observation):
        if self.choices is None:
            return candidates(observation)
        inputs = self._inputs(observation)
        index = np.arange(self.weights.size).reshape(len(self.choices), -1)
        return self.choices.tolist(), index, np.broadcast_to(inputs / np.linalg.norm(inputs), index.shape)

    def _bounded(self, numbers):
        low, high = self.space.low, self.space.high
        return np.clip(numbers.reshape(low.shape), low, high).astype(self.space.dtype)

    def _scores(self, index, value):
        return (self.weights[index] * value).sum(axis=1)


def candidates(observation):
    """Returns the possible actions, and per action the indices of its weights and their factors."""
    if "page" in observation:
        actions, rows = texts(observation)
    elif "dom_elements" in observation:
        actions, rows = fields_and_elements(observation)
    else:
        return cells(observation)
    return actions, np.array(rows), np.ones((len(rows), 2))


def cells(observation):
    """Circuit training: the cells where the macro fits; features are powers of their place."""
    actions = np.flatnonzero(observation["mask"])
    side = int(np.sqrt(len(observation["mask"])))
    y, x = np.divmod(actions, side)
    x, y = 8 * x / side - 4, 8 * y / side - 4
    value = np.stack([x, y, x * x, x * y, y * y], axis=1)
    turn = int(np.sum(observation["is_node_placed"])) % 2  # macros in a row can go to different places
    return actions.tolist(), np.broadcast_to(np.arange(5) + 5 * turn, value.shape), value


def fields_and_elements(observation):
    """Web navigation: buttons and links, and each field of the profile for each input; features are their words."""
    words, keys = observation["dom_elements"], observation["profile_key"]
    tags = words[:, 0, 0]
    pairs = [(0, element) for element in np.flatnonzero(np.isin(tags, CLICKED))]
    fields = np.flatnonzero(observation["profile_key_mask"][:, 0])[1:]  # row 0 is not a field
    pairs += [(field, element) for element in np.flatnonzero(np.isin(tags, FILLED)) for field in fields]
    pairs = pairs or [(0, 0)]
    rows = []
    for field, element in pairs:
        place = bucket(keys[field], words[element][[0, 2, 3]])  # tag, text and placeholder
        rows.append((place, bucket(words[element][[0, 4]])))  # the class shows what was done
    return [int(field * len(tags) + element) for field, element in pairs], rows


def texts(observation):
    """Web navigation as text: what each line of the page allows; features are words of the line and the instruction."""
    page = observation["page"]
    wanted = re.findall(rf"(?:the |, )?([^\"]*?)({STRING}|\bon\b|\boff\b)", observation["instruction"])
    actions, rows = ["submit"], [(bucket("submit"), bucket(page.count("visited")))]
    for number, role, rest in re.findall(r"^(\d+) (\w+)(.*)$", page, re.MULTILINE):
        label = re.sub(rf" (visited|clicked|focused|new|on|off|= {STRING})", "", rest)
        for before, given in wanted:
            if role in ("textbox", "password", "number") and given.startswith('"'):
                actions.append(f"fill {number} {given}")
            elif role in ("select", "radio") and given in label:
                actions.append(f"select {number} {given}")
            elif role == "checkbox" and given in ("on", "off"):
                actions.append(f"{'check' if given == 'on' else 'uncheck'} {number}")
            else:
                continue
            rows.append((bucket(before.split("the ")[-1], role, label), bucket("visited" in rest)))
    return actions, rows


def bucket(*words):
    """Returns the number of the weight for some words."""
    parts = [word.tobytes() if isinstance(word, np.ndarray) else json.dumps(word).encode() for word in words]
    return zlib.crc32(b"|".join(parts)) % BUCKETS
