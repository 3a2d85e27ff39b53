"""Sends cards and folders to the Hugging Face hub, each push as one commit."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.plain_text import terminal_line
from a2perf.runs.inventory import find_bundles
from a2perf_trackers.exporting import install_line

if TYPE_CHECKING:
    from huggingface_hub import DatasetCard, ModelCard

CROISSANT_FILE = "croissant.json"  # as a2perf.datasets.croissant writes it
RepoType: TypeAlias = Literal["model", "dataset"]
_README = "README.md"
_TOKEN_HINT = "set the variable HF_TOKEN to a token with write access, or run `hf auth login`"
_HINTS = {
    401: _TOKEN_HINT,
    403: _TOKEN_HINT,
    404: "check the name and whether the token may write to it",
    409: "the repository changed at the same time: repeat the command",
    412: "the repository changed at the same time: repeat the command",
}
_MOST_CHARACTERS = 300


def hub_library() -> Any:
    """Returns the module ``huggingface_hub``.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "cards for the Hugging Face hub need the package huggingface_hub, which is not installed",
            hint=install_line("huggingface"),
        ) from error
    return huggingface_hub


def push(
    given: ModelCard | DatasetCard | str | Path, repo_id: str, *, folder: str | Path | None = None,
    private: bool | None = None,
) -> str:  # fmt: skip
    """Publishes a card or a folder in a repository of the hub, which is created if it does not exist.

    All files are sent in one commit: either all of them are published or none. The token is that of ``HF_TOKEN`` or of
    ``hf auth login`` and is never shown. The card of a dataset, or a folder with ``croissant.json``, creates a
    repository of datasets.

    Args:
        given: a card of this package, or a folder.
        repo_id: name of the repository, ``"organization/name"``.
        folder: files that are published together with a card; a README.md in it is replaced by the card.
        private: visibility of a new repository; by default that of the account.

    Returns:
        The address of the commit.

    Raises:
        ConfigError: the name of the repository is not valid, a token is missing, or the folder is missing, empty or
            holds recorded runs, which may contain secret seeds.
        UserError: the hub cannot be reached or refuses the request; nothing was published then.
        MissingDependency: the package ``huggingface_hub`` is not installed.

    Example:
        >>> from a2perf_trackers.huggingface import model_card, push
        >>> push(model_card("runs/my_agent"), "me/my_agent")  # doctest: +SKIP
        'https://.../me/my_agent/commit/...'
    """
    library = hub_library()
    _require_valid_name(library, repo_id)
    operations, kind = _operations(library, given, folder)
    token = library.get_token()
    if not token:
        raise ConfigError("no access token for the hub was found", hint=_TOKEN_HINT)
    api = library.HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    step = f"create the repository {repo_id}"
    try:
        api.create_repo(repo_id, repo_type=kind, private=private, exist_ok=True)
        step = f"commit to {repo_id}"
        info = api.create_commit(repo_id, operations, commit_message="Add results of a2perf", repo_type=kind)
    except Exception as error:  # the library raises its own errors, those of its HTTP client, and OSError
        raise _refused(error, step, token) from error
    return str(info.commit_url)


def _operations(
    library: Any, given: ModelCard | DatasetCard | str | Path, folder: str | Path | None
) -> tuple[list[Any], RepoType]:
    files: dict[str, Any] = {}
    kind: RepoType = "model"
    place = folder
    if isinstance(given, str | Path):
        if folder is not None:
            raise ConfigError("two folders are given", hint="give a card and a folder, or one folder")
        place = given
    if place is not None:
        files |= {path.relative_to(place).as_posix(): str(path) for path in _files(Path(place))}
        kind = "dataset" if CROISSANT_FILE in files else "model"
    if isinstance(given, library.RepoCard):
        files[_README] = str(given).encode()
        kind = "dataset" if isinstance(given, library.DatasetCard) else "model"
    elif not isinstance(given, str | Path):
        raise ConfigError(f"cannot publish an object of type {type(given).__name__}", hint="give a card or a folder")
    return [library.CommitOperationAdd(path_in_repo=name, path_or_fileobj=files[name]) for name in sorted(files)], kind


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder", hint="give the folder to publish")
    if bundles := find_bundles(folder):
        raise ConfigError(
            f"{folder} holds the recorded run {bundles[0]}, which may contain secret seeds and logs",
            hint="publish a card of the runs instead: `a2perf export huggingface RUNS --push NAME`",
        )
    # links and hidden files could lead to or be something that is not meant to be published
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    ]
    if not found:
        raise ConfigError(f"{folder} holds no files", hint="give the folder to publish")
    return found


def _require_valid_name(library: Any, repo_id: str) -> None:
    try:
        library.utils.validate_repo_id(repo_id)
    except ValueError as error:
        reason = terminal_line(" ".join(str(error).split()), _MOST_CHARACTERS)
        raise ConfigError(
            f"{repo_id!r} is not a name of a repository: {reason}", hint="give organization/name"
        ) from error


def _refused(error: Exception, step: str, token: str) -> UserError:
    """Returns the error for a failed request, without the token and in one line."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    text = re.sub(r"\s+", " ", str(error).replace(token, "***")).strip()
    reason = terminal_line(text or type(error).__name__, _MOST_CHARACTERS)
    if isinstance(status, int):
        hint = _HINTS.get(status, "repeat the command later" if status >= 500 or status == 429 else _TOKEN_HINT)
        return UserError(f"the hub refused to {step}: {status}; nothing was published ({reason})", hint=hint)
    if isinstance(error, ValueError):
        return UserError(f"cannot {step}: {reason}; nothing was published", hint="correct the metadata of the card")
    return UserError(
        f"cannot reach the hub to {step}: {reason}; nothing was published",
        hint="check the network and the variables HF_ENDPOINT and HF_HUB_OFFLINE, then repeat the command",
    )
