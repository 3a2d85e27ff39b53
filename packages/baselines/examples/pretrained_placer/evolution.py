"""Learns the policy's linear part by the cross-entropy method: what is measured is the placement itself.

Each generation draws weights from a normal distribution, places the same few designs with each of them (the
best-scored cell for every macro, without chance), and moves the distribution to the best quarter. Costs count relative
to the mean of the generation on each design. See de Boer et al. 2005, "A tutorial on the cross-entropy method".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scorer import SHARPNESS, CellScorer

from a2perf_baselines import learning
from a2perf_placement.features.batch import INFEASIBLE_COST, PlacementTask
from a2perf_placement.features.features import FEATURES, PlacementState

_CONSTANT = FEATURES.index("share placed")  # these columns are equal for all cells: no weight changes a choice
_PLACE = FEATURES.index("x")  # left and right differ on one design only
_STEP = 0.6  # of the way to the mean of the best quarter
_LEAST_DEVIATION = 0.005

Keep = Callable[[float, Sequence[int]], None]


class Evolution:
    """The search.

    Args:
        run: the training run.
        settings: of the run: ``population``, ``designs_per_generation``, ``deviation``, ``width``, budgets.
        start: the policy to begin with.
        designs: what to make a task from, for each design to learn from.
        validation: the same for the designs of evaluations.
        make: makes a task.
        keep: receives cost and cells of each placement on a design to learn from.
    """

    def __init__(
        self,
        run: learning.TrainingRun,
        settings: Any,
        start: CellScorer,
        designs: Sequence[Any],
        validation: Sequence[Any],
        make: Callable[[Any], PlacementTask],
        keep: Keep,
    ) -> None:
        self.run, self.settings, self.make, self.keep = run, settings, make, keep
        self.designs, self.validation = designs, validation
        self.known: dict[tuple[bool, int], tuple[PlacementTask, PlacementState]] = {}
        self.generator = np.random.default_rng(run.seeds("evolution", 1)[0])
        self.mean = start.arrays["skip"][0].astype(np.float64) / SHARPNESS
        self.deviation = np.full(len(FEATURES), settings.deviation)
        self.deviation[_CONSTANT:] = 0.0
        if len(designs) == 1:
            self.deviation[_PLACE:] = settings.deviation
        self.learned = self.deviation > 0.0
        self.generation = self.steps = self.episodes = 0
        self.best = float("inf")
        self.queue: list[int] = []

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from what `state` returned."""
        self.mean, self.deviation = state["mean"].copy(), state["deviation"].copy()
        self.generation, self.steps, self.episodes = state["generation"], state["steps"], state["episodes"]
        self.best, self.queue = state["best"], list(state["queue"])
        learning.restore_rng(self.generator, state["generator"])

    def state(self) -> dict[str, Any]:
        """Returns everything that a resumed search needs."""
        names = ("mean", "deviation", "generation", "steps", "episodes", "best", "queue")
        return {**{name: getattr(self, name) for name in names}, "generator": learning.rng_state(self.generator)}

    def advance(self, deadline: Callable[[], bool]) -> float | None:
        """Improves the distribution by a generation.

        Args:
            deadline: returns whether the time is over; a generation that is not complete then changes nothing.

        Returns:
            The mean cost of the best quarter, or None if the time was over.
        """
        settings = self.settings
        drawn = self.mean + self.deviation * self.generator.normal(size=(settings.population, len(FEATURES)))
        drawn[0] = self.mean
        costs = np.zeros((settings.population, min(settings.designs_per_generation, len(self.designs))))
        for column in range(costs.shape[1]):
            if not self.queue:
                self.queue = self.generator.permutation(len(self.designs)).tolist()
            number = self.queue.pop()
            for row, weights in enumerate(drawn):
                if deadline():
                    return None
                costs[row, column] = self._cost(number, weights, validation=False)
        relative = (costs - costs.mean(axis=0)).mean(axis=1)
        elite = np.argsort(relative, kind="stable")[: settings.population // 4]
        self.mean += _STEP * (drawn[elite].mean(axis=0) - self.mean)
        spread = 0.7 * self.deviation + 0.3 * drawn[elite].std(axis=0) + _LEAST_DEVIATION
        self.deviation = np.where(self.learned, spread, 0.0)
        self.generation += 1
        return float(costs[elite].mean())

    def evaluate(self) -> float:
        """Returns the mean cost on the validation designs with the mean weights."""
        found = [self._cost(number, self.mean, validation=True) for number in range(len(self.validation))]
        return float(np.mean(found))

    def scorer(self, weights: Any = None) -> CellScorer:
        """Returns the policy of some weights, by default of the mean of the distribution."""
        chosen = self.mean if weights is None else weights
        return CellScorer.linear(SHARPNESS * chosen[None], self.settings.width)

    def _cost(self, number: int, weights: Any, *, validation: bool) -> float:
        key = (validation, number)
        if key not in self.known:
            task = self.make((self.validation if validation else self.designs)[number])
            self.known[key] = (task, PlacementState(task.design, task.start))
        task, state = self.known[key]
        cells = self.scorer(weights).place(state)
        self.steps += len(state.placed)
        self.episodes += 1
        if cells is None:
            return INFEASIBLE_COST
        cost = task.finish(cells)[0]
        if not validation:
            self.keep(cost, cells)
        return cost


def learn(run: learning.TrainingRun, search: Evolution) -> None:
    """Searches until the budget is used up, from the last checkpoint if there is one.

    Artifacts: ``weights.npz``, the policy with the best evaluation; ``progress.csv``; checkpoints.
    """
    settings = search.settings
    progress = run.folder / "progress.csv"
    saved = run.latest()
    if saved is not None:
        search.restore(saved.state)
    else:
        progress.write_text("generation,steps,episodes,seconds,cpu_seconds,elite_cost,evaluation,best,deviation\n")

    def over() -> bool:
        used_up = time.process_time() >= settings.processor_budget_s
        return used_up or run.out_of_time or search.steps >= run.total_steps

    while not over():
        cost = search.advance(over)
        if cost is None:
            break
        evaluation = float("nan")
        if search.generation % settings.evaluate_every == 0:
            evaluation = search.evaluate()
            if evaluation < search.best:
                search.best = evaluation
                learning.replace(run.folder / "weights.npz", search.scorer().save)
            run.average_return(-evaluation, search.steps)
        line = (
            f"{search.generation},{search.steps},{search.episodes},{run.elapsed_s:.1f},{time.process_time():.1f},"
            f"{cost:.5f},{evaluation:.5f},{search.best:.5f},{search.deviation[search.learned].mean():.4f}"
        )
        with progress.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        run.say(line)
        run.save(search.steps, None, search.state())
