"""The option ``--model``: the language model that a run may use, from a TOML file or the bundle of a recorded run.

The file is the organizer's. It is read and checked before anything starts::

    endpoint = "https://HOST/v1"
    models = ["small"]
    key_variable = "MODEL_KEY"
    [budget]
    calls = 1000
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from a2perf.errors import ConfigError, did_you_mean
from a2perf.records import Failure, FailureKind
from a2perf.runs.bundles.layout import MODEL_CALLS
from a2perf.storage import MAX_LINE_BYTES
from a2perf.stranger_files import StrangerFileError, read_file
from a2perf.submission.given_paths import settled
from a2perf.submission.run_services import RunService, ServedRun, ServiceSession
from a2perf.submission.settings import content_of, option
from a2perf_agents.calls import decode_entry
from a2perf_agents.record import OpenedEntry
from a2perf_agents.relay.access import BudgetLimits, ModelAccess, PriceTable

_FILE_BYTES = 1 << 20
_KEY_FILE_BYTES = 16 << 10
_ASKS_FOR_MODEL = re.compile(r"OPENAI_BASE_URL|OPENAI_API_KEY|A2PERF_MODEL")
_OFFER = "give `--model FILE.toml` to `a2perf run` or `a2perf check`"


class ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The TOML file; its paths are relative to its folder.

    Attributes:
        models: names of the models that the submission may use; the first is the default.
        key_variable: name of the evaluator's environment variable that holds the server's key.
        key_file: file that holds the server's key.
        replay: a bundle; its recorded answers are used instead of a server.
        call_timeout_s: limit of one call in seconds, retries included.
    """

    endpoint: str | None = None
    models: list[str] = []
    key_variable: str | None = None
    key_file: str | None = None
    replay: str | None = None
    output_tokens: Annotated[int, msgspec.Meta(ge=1)] = 4096
    call_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 120.0
    budget: BudgetLimits = BudgetLimits()
    prices: PriceTable | None = None


@dataclass(frozen=True, kw_only=True)
class LanguageModel(RunService):
    """The relay to a language model.

    Attributes:
        model: the TOML file, or a bundle to replay; None offers no model.
    """

    name: ClassVar[str] = "language model"
    model: str | None = option(
        None,
        "Language model of the submission: a TOML file, or a recorded run that answers again.",
        metavar="FILE.toml|BUNDLE",
        path=True,
    )

    def is_wanted(self) -> bool:
        """Returns whether a model is given."""
        return self.model is not None

    def names(self) -> Sequence[str]:
        """Returns the names of the models."""
        found = self._read()
        return found.models or _recorded_models(self._journal(found, None))

    def identity(self) -> dict[str, Any]:
        """Returns everything but the server's address and key; a replayed bundle counts by its content."""
        found = self._read()
        limits = {name: getattr(found.budget, field) for name, field in _LIMITS.items()}
        return {
            **limits,
            "model_output_limit": found.output_tokens,
            "model_call_timeout_s": found.call_timeout_s,
            "model_price_table": msgspec.to_builtins(found.prices),
            "model_replay": None if found.replay is None else content_of(str(self._beside(found.replay))),
        }

    def hidden_paths(self) -> Sequence[str]:
        """Returns the file, the file with the key, and the replayed bundle."""
        found = self._read()
        inner = [str(self._beside(given)) for given in (found.key_file, found.replay) if given is not None]
        return [str(self.model), *inner]

    def open(self, run: ServedRun) -> AbstractContextManager[ServiceSession]:
        """Starts the relay, see ``relay.handle.open_relay``."""
        from a2perf_agents.relay.handle import open_relay  # needs its server only here

        return open_relay(self.access(run), run)

    @classmethod
    def explain_absence(cls, failure: Failure) -> Failure:
        """Returns the failure of a participant that asks for a model, with the option that offers one."""
        if failure.kind is not FailureKind.EXCEPTION or not _ASKS_FOR_MODEL.search(failure.message):
            return failure
        text = f"{failure.message} (the submission asks for a language model, but none is offered: {_OFFER})"
        return msgspec.structs.replace(failure, message=text)

    def access(self, run: ServedRun) -> ModelAccess:
        """Returns what the relay needs to know.

        Raises:
            ConfigError: the file is missing or not valid, or a value in it is.
        """
        settled(str(self.model), run.submission, "--model")
        found = self._read()
        replay = None if found.replay is None else self._journal(found, run.submission)
        models = tuple(self.names())
        if not models:
            raise ConfigError(
                f"{self.model}: no model is named", hint='add `models = ["NAME"]`, from the server\'s list'
            )
        if found.prices is None and found.budget.cost is not None:
            raise ConfigError(f"{self.model}: a budget of cost needs prices", hint="add the table [prices]")
        priced = None if found.prices is None else found.prices.models
        for name in models:
            if priced is not None and name not in priced:
                raise ConfigError(
                    f"{self.model}: there is no price of {name!r}{did_you_mean(name, priced)}",
                    hint=f'add [prices.models."{name}"] with input and output per million tokens',
                )
        return ModelAccess(
            endpoint="" if replay else self._endpoint(found.endpoint),
            key="" if replay else self._key(found, run),
            models=models,
            budgets=found.budget,
            prices=found.prices,
            output_tokens=found.output_tokens,
            call_timeout_s=found.call_timeout_s,
            replay=None if replay is None else str(replay),
        )

    def _beside(self, given: str) -> Path:
        """Returns a path in the file, relative to its folder."""
        return Path(str(self.model)).expanduser().absolute().parent / Path(given).expanduser()

    def _read(self) -> ModelFile:
        place = Path(str(self.model)).expanduser()
        if place.is_dir() or place.name == MODEL_CALLS:
            return ModelFile(replay=str(place.absolute()))
        try:
            text = read_file(place, max_bytes=_FILE_BYTES).decode("utf-8-sig")
            found = msgspec.convert(tomllib.loads(text), ModelFile, strict=False)
        except (StrangerFileError, ValueError) as error:
            raise ConfigError(
                f"--model {self.model} is not a description of a model: {error}",
                hint='write TOML: endpoint = "http://HOST:PORT/v1", models = ["NAME"]; see packages/agents/README.md',
            ) from error
        if (found.endpoint is None) == (found.replay is None):
            raise ConfigError(
                f"{self.model}: one of endpoint and replay is needed",
                hint='add endpoint = "http://HOST:PORT/v1", or replay = "BUNDLE"',
            )
        return found

    def _journal(self, found: ModelFile, submission: Path | None) -> Path:
        if found.replay is None:
            return Path()
        place = settled(self._beside(found.replay), submission, "the replay of --model")
        journal = place if place.name == MODEL_CALLS else place / MODEL_CALLS
        if not journal.is_file():
            raise ConfigError(
                f"--model {self.model}: {found.replay} holds no record of calls to a model",
                hint="give the bundle of a run that used a model, for example ROOT/inference",
            )
        return journal

    def _endpoint(self, given: str | None) -> str:
        try:
            parts = urlsplit(given or "")
            valid = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
            )
        except ValueError:
            valid = False
        if given is None or not valid or parts.query or parts.fragment:
            raise ConfigError(
                f"{self.model}: the endpoint {given!r} is not the address of a server",
                hint="give the base address of its OpenAI-compatible interface, for example http://127.0.0.1:8000/v1",
            )
        if parts.username or parts.password:
            raise ConfigError(
                f"{self.model}: the endpoint contains a user or a password",
                hint="put the key into a variable or a file: key_variable or key_file",
            )
        return given.rstrip("/")

    def _key(self, found: ModelFile, run: ServedRun) -> str:
        variable = found.key_variable
        if variable is not None and found.key_file is not None:
            raise ConfigError(f"{self.model}: the key is given twice", hint="keep key_variable or key_file")
        if variable is not None:
            if variable in run.passed_variables:
                raise ConfigError(
                    f"Submission.pass_environment would give the model's key to the submission: {variable}",
                    hint=f"remove {variable} from the list",
                )
            key = os.environ.get(variable, "").strip()
            if not key:
                raise ConfigError(f"{self.model}: the variable {variable} is not set", hint=f"export {variable}=...")
            return _usable(key, f"the variable {variable}")
        if found.key_file is None:
            return ""
        path = settled(self._beside(found.key_file), run.submission, "the key file of --model")
        try:
            text = read_file(path, max_bytes=_KEY_FILE_BYTES).decode("utf-8-sig", "replace").strip()
        except StrangerFileError as error:
            raise ConfigError(
                f"{self.model}: the key file cannot be read: {error}", hint="give a file that holds the key only"
            ) from error
        return _usable(text, str(path))


_LIMITS = {
    "model_token_limit": "tokens",
    "model_call_limit": "calls",
    "model_time_limit_s": "seconds",
    "model_energy_limit_j": "joules",
    "model_cost_limit": "cost",
}
"""Names of the budgets in the settings of a manifest, and in the file."""


def _recorded_models(journal: Path) -> list[str]:
    """Returns the models of a recorded run: a submission that asks for its default model by name asks for the same."""
    try:
        with journal.open("rb") as stream:
            first = decode_entry(stream.readline(MAX_LINE_BYTES))
    except (OSError, msgspec.DecodeError):
        return []
    return list(first.models) if isinstance(first, OpenedEntry) else []


def _usable(key: str, origin: str) -> str:
    """Returns a key that fits into a header.

    Raises:
        ConfigError: it does not; the message does not quote it.
    """
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"{origin} does not hold a key: one word of printable ASCII characters is needed",
            hint="store the key alone, without quotation marks or a name in front",
        )
    return key
