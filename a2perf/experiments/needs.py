"""What an experiment needs before it starts: folders of submissions, packages, environments.

A missing package is never the fault of an algorithm: it is found before anything runs, or, if only the run of an
unknown program can tell, it counts as a failure of the set-up.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path

from a2perf.domains.any_environment import register
from a2perf.errors import MissingDependency, UserError, did_you_mean
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.layout import MODES, bundle_path

_PACKAGES = ("gymnasium_robotics", "ale_py")
_VERSIONED = re.compile(r"(.+)-v(\d+)")
_MISSING = re.compile(r"\b(?:ModuleNotFoundError|DependencyNotInstalled|MissingDependency): [^\n]*")
_MISSING_OF_OURS = re.compile(r"([^\n]* needs the package [^\n]*, which is not installed)\s+Hint: ([^\n]*)")


def find_submission(folder: Path, near: Path | None = None) -> Path:
    """Returns the folder of a submission: as given, above a file that names it, or in the checkout of a2perf."""
    above = [] if near is None else list(near.absolute().parents)
    places = [Path(), *above, Path(__file__).resolve().parents[2]]
    return next((place / folder for place in places if (place / folder).is_dir()), folder)


def resolve_env_id(env_id: str) -> tuple[str, str]:
    """Returns an installed id for the id of a configuration.

    Imports the package of ``my_envs:ID``, and those that register ids on request. If the requested version is not
    installed, the next newer one is used, or else the newest older one, because old versions often depend on packages
    that no longer exist.

    Returns:
        The id, and a notice if it differs from the requested one.

    Raises:
        UserError: no version of it is installed.
    """
    import gymnasium

    env_id = register(env_id)
    if env_id in gymnasium.registry:
        return env_id, ""
    for package in _PACKAGES:
        with contextlib.suppress(ImportError):
            gymnasium.register_envs(importlib.import_module(package))
    if env_id in gymnasium.registry:
        return env_id, ""
    match = _VERSIONED.fullmatch(env_id)
    name, wanted = (match[1], int(match[2])) if match else (env_id, 0)
    versions = {
        int(found[2]): known
        for known in gymnasium.registry
        if (found := _VERSIONED.fullmatch(known)) is not None and found[1] == name
    }
    if not versions:
        raise UserError(
            f"no environment {env_id!r} is registered{did_you_mean(env_id, gymnasium.registry)}",
            hint="install the package that has it (robots: pip install gymnasium-robotics), or check its spelling",
        )
    newer = [version for version in versions if version > wanted]
    found_id = versions[min(newer) if newer else max(versions)]
    return found_id, f"{env_id} is not installed; {found_id} is used, so numbers of {env_id} do not compare"


def require_training(env_ids: Iterable[str]) -> None:
    """Checks that the packaged runner can train in environments.

    Raises:
        MissingDependency: Stable-Baselines3 or the package of an environment is not installed.
        UserError: no environment has this id.
    """
    wanted = list(dict.fromkeys(env_ids))
    if not wanted:
        return
    missing = [name for name in ("stable_baselines3", "torch") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependency(
            f"the packaged runner needs packages that are not installed: {', '.join(missing)}",
            hint="pip install -e '.[perftest]' in a checkout of a2perf, or pip install stable-baselines3",
        )
    import gymnasium

    for env_id in wanted:
        try:
            gymnasium.make(resolve_env_id(env_id)[0], disable_env_checker=True).close()
        except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
            raise MissingDependency(
                f"{env_id} needs a package that is not installed: {error}", hint="install the package that it names"
            ) from error
        except UserError:
            raise
        except Exception:  # arguments of the test may be needed; the run itself will tell
            continue


def missing_package(run: Path) -> str:
    """Returns the line that names the missing package on which a run failed; empty for any other end."""
    for mode in ("command", *MODES):
        manifest = BundleReader.of(files_of(bundle_path(run, mode))).manifest
        failure = manifest.failure if manifest is not None else None
        if failure is None:
            continue
        for text in (failure.traceback, failure.message):
            lines = [line for line in (text or "").splitlines() if line.strip()]
            found = _MISSING.search(lines[-1]) if lines else None
            if found is not None:
                return found[0]
        ours = _MISSING_OF_OURS.match(failure.message)
        if ours is not None:
            return f"{ours[1]}; {ours[2]}"
    return ""
