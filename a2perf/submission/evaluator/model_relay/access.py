"""The language model that a run may use: read from the settings and checked before anything starts."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec

from a2perf.errors import ConfigError, MissingDependency, did_you_mean, install_hint
from a2perf.runs.layout import MODEL_CALLS
from a2perf.runs.model_calls import decode_entry
from a2perf.runs.model_record import OpenedEntry
from a2perf.storage import MAX_LINE_BYTES
from a2perf.stranger_files import StrangerFileError, read_file
from a2perf.submission.given_paths import settled
from a2perf.submission.settings import Submission

_PRICE_FILE_BYTES = 1 << 20
_KEY_FILE_BYTES = 16 << 10


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of one model per million tokens.

    Attributes:
        input: price of tokens of the prompt.
        output: price of tokens of the answer.
        cached_input: price of tokens of the prompt that the server had cached; by default that of ``input``.
    """

    input: float
    output: float = 0.0
    cached_input: float | None = None


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices by name of the model.

    Attributes:
        currency: unit of the prices, ``"USD"``.
        models: the prices.
    """

    currency: str
    models: dict[str, ModelPrice]


class BudgetLimits(msgspec.Struct, frozen=True):
    """Budgets of one run; None means no bound.

    Attributes:
        tokens: tokens of prompts and answers together.
        calls: calls to the model.
        seconds: time in which at least one call is in flight.
        joules: energy above idle of the participant's processes; that of the model is unknown.
        cost: in the currency of the price table.
    """

    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None
    joules: float | None = None
    cost: float | None = None


class ModelAccess(msgspec.Struct, frozen=True):
    """What a relay needs to know; ``key`` is never written anywhere.

    Attributes:
        endpoint: base address of the server, ``"https://host/v1"``; empty in a replay.
        key: its secret key; empty for a server without one.
        models: names of the models that may be used; the first is the default.
        budgets: bounds on the run.
        prices: price table.
        output_tokens: most tokens of one answer.
        call_timeout_s: limit of one call, retries included, in seconds.
        replay: journal that answers the requests; None to use the endpoint.
    """

    endpoint: str = ""
    key: str = ""
    models: tuple[str, ...] = ()
    budgets: BudgetLimits = BudgetLimits()
    prices: PriceTable | None = None
    output_tokens: int = 4096
    call_timeout_s: float = 120.0
    replay: str | None = None

    @property
    def shown_endpoint(self) -> str:
        """The endpoint without user, password and query."""
        parts = urlsplit(self.endpoint)
        port = "" if parts.port is None else f":{parts.port}"
        return urlunsplit((parts.scheme, f"{parts.hostname or ''}{port}", parts.path, "", ""))


def model_access(settings: Submission) -> ModelAccess | None:
    """Returns the model that the settings allow; None if they allow none.

    Raises:
        ConfigError: a setting is missing or not valid.
        MissingDependency: a package of the relay is not installed.
    """
    if settings.model_replay is None and settings.model_endpoint is None:
        _refuse_leftovers(settings)
        return None
    require_packages()
    models = tuple(settings.model)
    replay = None
    if settings.model_replay is not None:
        place = settled(settings.model_replay, settings.folder, "Submission.model_replay")
        replay = place if place.name == MODEL_CALLS else place / MODEL_CALLS
        if not replay.is_file():
            raise ConfigError(
                f"Submission.model_replay: {settings.model_replay} holds no record of calls to a model",
                hint="give the bundle of a run that used a model, for example ROOT/inference",
            )
        models = models or _recorded_models(replay)
    elif not models:
        raise ConfigError("no model was named", hint="add `--model NAME`, a name from the server's list of models")
    prices = _prices(settings, models)
    return ModelAccess(
        endpoint="" if replay else _endpoint(str(settings.model_endpoint)),
        key="" if replay else _key(settings),
        models=models,
        budgets=BudgetLimits(
            tokens=settings.model_token_limit,
            calls=settings.model_call_limit,
            seconds=settings.model_time_limit_s,
            joules=settings.model_energy_limit_j,
            cost=settings.model_cost_limit,
        ),
        prices=prices,
        output_tokens=settings.model_output_limit,
        call_timeout_s=settings.model_call_timeout_s,
        replay=None if replay is None else str(replay),
    )


def _recorded_models(journal: Path) -> tuple[str, ...]:
    """Returns the models of a recorded run: a submission that asks for its default model by name asks for the same."""
    try:
        with journal.open("rb") as stream:
            first = decode_entry(stream.readline(MAX_LINE_BYTES))
    except (OSError, msgspec.DecodeError):
        return ()
    return tuple(first.models) if isinstance(first, OpenedEntry) else ()


def _refuse_leftovers(settings: Submission) -> None:
    names = ("model", "model_key_variable", "model_key_file", "model_prices", "model_token_limit", "model_call_limit",
             "model_time_limit_s", "model_energy_limit_j", "model_cost_limit")  # fmt: skip
    if given := [name for name in names if getattr(settings, name) not in (None, (), [])]:
        raise ConfigError(
            f"Submission.{given[0]} is set without an endpoint",
            hint="add `--model-endpoint http://HOST:PORT/v1`, or remove the setting",
        )


def require_packages() -> None:
    """Checks that the packages of the relay are installed.

    Raises:
        MissingDependency: one is not.
    """
    try:
        import h11  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"the relay to a language model needs the package {error.name}", hint=install_hint("models")
        ) from error


def _endpoint(given: str) -> str:
    try:
        parts = urlsplit(given)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise ConfigError(
            f"Submission.model_endpoint: {given!r} is not the address of a server",
            hint="give the base address of its OpenAI-compatible interface, for example http://127.0.0.1:8000/v1",
        )
    if parts.username or parts.password:
        raise ConfigError(
            "Submission.model_endpoint contains a user or a password",
            hint="put the key into a variable or a file: `--model-key-variable NAME` or `--model-key-file FILE`",
        )
    return given.rstrip("/")


def _key(settings: Submission) -> str:
    variable, file = settings.model_key_variable, settings.model_key_file
    if variable is not None and file is not None:
        raise ConfigError("the model's key is given twice", hint="use --model-key-variable or --model-key-file")
    if variable is not None:
        if variable in settings.pass_environment:
            raise ConfigError(
                f"Submission.pass_environment would give the model's key to the submission: {variable}",
                hint=f"remove {variable} from the list",
            )
        key = os.environ.get(variable, "").strip()
        if not key:
            raise ConfigError(
                f"Submission.model_key_variable: the variable {variable} is not set", hint=f"export {variable}=..."
            )
        return _usable(key, f"the variable {variable}")
    if file is not None:
        path = settled(file, settings.folder, "Submission.model_key_file")
        try:
            text = read_file(path, max_bytes=_KEY_FILE_BYTES).decode("utf-8-sig", "replace").strip()
        except StrangerFileError as error:
            raise ConfigError(
                f"Submission.model_key_file cannot be read: {error}", hint="give a file that holds the key only"
            ) from error
        return _usable(text, str(path))
    return ""


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


def _prices(settings: Submission, models: tuple[str, ...]) -> PriceTable | None:
    if settings.model_prices is None:
        if settings.model_cost_limit is not None:
            raise ConfigError(
                "Submission.model_cost_limit needs a price table", hint="add `--model-prices FILE` with the prices"
            )
        return None
    path = settled(settings.model_prices, settings.folder, "Submission.model_prices")
    try:
        table = read_prices(path)
    except (StrangerFileError, ValueError) as error:
        raise ConfigError(
            f"Submission.model_prices: {settings.model_prices} is not a price table: {error}",
            hint='write TOML: currency = "USD", then per model [models."NAME"] with input = and output = per million',
        ) from error
    for name in models:
        if name not in table.models:
            raise ConfigError(
                f"the price table {settings.model_prices} has no price of {name!r}{did_you_mean(name, table.models)}",
                hint=f'add [models."{name}"] with input and output per million tokens',
            )
    return table


def read_prices(path: Path) -> PriceTable:
    """Reads a price table in TOML.

    Raises:
        StrangerFileError: the file cannot be read.
        ValueError: it is not a price table.
    """
    text = read_file(path, max_bytes=_PRICE_FILE_BYTES).decode("utf-8-sig")
    table = msgspec.convert(tomllib.loads(text), PriceTable, strict=False)
    for price in table.models.values():
        if any(
            value is not None and not 0 <= value < float("inf")
            for value in (price.input, price.output, price.cached_input)
        ):
            raise ValueError("a price is negative or not finite")
    return table
