"""One run of one submission: the command of the evaluator that ``a2perf run`` and the Python API start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from a2perf.experiments.evaluator_run import launcher_limit_s
from a2perf.launch.run_spec import Resources, RunCommand
from a2perf.submission.run_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """What one run executes. A value that is not given is decided by the gin file.

    Attributes:
        submission: the submission's folder.
        gin_config: gin file: a path, or the name of a packaged file of the domain.
        root: folder of the run, which holds one bundle per mode.
        participant_args: arguments of ``train`` and ``load_policy`` as ``k=v,...``.
        resources: what the run may use.
    """

    submission: Path
    gin_config: str
    root: str
    participant_args: str = ""
    domain: str | None = None
    task: str | None = None
    seed: int | None = None
    verbosity: str | None = None
    options: RunOptions = field(default_factory=RunOptions)
    bindings: tuple[str, ...] = ()
    force: bool = False
    as_json: bool = False
    resources: Resources = field(default_factory=Resources)

    def command(self, env: Mapping[str, str] | None = None) -> RunCommand:
        """Returns the command of the evaluator.

        Args:
            env: environment variables of the command, in addition to those of its launcher.
        """
        folder = self.submission.resolve()
        files = [Path(given).expanduser().absolute() for given in self._files() if Path(given).expanduser().exists()]
        folders = (self.root, self.options.get("metric_values_dir"))
        return RunCommand.evaluator(
            self._flags(),
            name=folder.name,
            env=env or {},
            resources=replace(self.resources, wall_s=launcher_limit_s(self.resources.wall_s)),
            domain=self.domain,
            readable=(folder, *files),
            writable=tuple(Path(path).expanduser().absolute() for path in folders if path),
        )

    def _files(self) -> list[str]:
        return [path for path in (self.gin_config, self.options.get("datasets_path")) if path]

    def _flags(self) -> list[str]:
        flags = [
            "--participant-module-path", str(self.submission),
            "--submission-gin-config-path", self.gin_config,
            "--root-dir", self.root,
        ]  # fmt: skip
        for name in ("participant_args", "domain", "task", "seed", "verbosity"):
            value = getattr(self, name)
            if value not in (None, ""):
                flags += [f"--{name.replace('_', '-')}", str(value)]
        flags += self.options.words()
        for binding in self.bindings:
            flags += ["--extra-gin-bindings", binding]
        return flags + ["--force"] * self.force + ["--json"] * self.as_json
