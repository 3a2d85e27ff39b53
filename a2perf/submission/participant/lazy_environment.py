"""The environment that ``load_policy(env, ...)`` receives; it is built on first use.

Most policies do not need it, and building an environment can take seconds. The evaluator never uses its results.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

ID_VARIABLE = "A2PERF_ENV_ID"
KWARGS_VARIABLE = "A2PERF_ENV_KWARGS"


class LazyEnvironment:
    """Proxy of ``gymnasium.make(env_id, **kwargs)``; any attribute access except ``repr`` builds the environment.

    ``isinstance(env, gymnasium.Env)`` is true; gymnasium is imported only when ``__class__`` is read.
    """

    def __init__(self, env_id: str | None, kwargs: Mapping[str, Any]) -> None:
        # The class's own attribute methods would build the environment.
        object.__setattr__(self, "_lazy_id", env_id)
        object.__setattr__(self, "_lazy_kwargs", dict(kwargs))
        object.__setattr__(self, "_lazy_env", None)

    @classmethod
    def from_variables(cls) -> LazyEnvironment:
        """Returns the environment that ``A2PERF_ENV_ID`` and ``A2PERF_ENV_KWARGS`` name."""
        return cls(os.environ.get(ID_VARIABLE), json.loads(os.environ.get(KWARGS_VARIABLE) or "{}"))

    def __getattr__(self, name: str) -> Any:
        return getattr(_built(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_built(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_built(self), name)

    @property
    def __class__(self) -> type:
        import gymnasium

        return gymnasium.Env

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of an environment cannot be changed")

    def __enter__(self) -> Any:
        return _built(self).__enter__()

    def __exit__(self, *details: Any) -> Any:
        return _built(self).__exit__(*details)

    def __repr__(self) -> str:
        env = object.__getattribute__(self, "_lazy_env")
        return f"<{object.__getattribute__(self, '_lazy_id')}, not built yet>" if env is None else repr(env)

    def __reduce__(self) -> tuple[Any, ...]:
        own = object.__getattribute__
        return (LazyEnvironment, (own(self, "_lazy_id"), own(self, "_lazy_kwargs")))

    def close(self) -> None:
        """Closes the environment if it was built."""
        env = object.__getattribute__(self, "_lazy_env")
        if env is not None:
            env.close()


def _built(lazy: LazyEnvironment) -> Any:
    env = object.__getattribute__(lazy, "_lazy_env")
    if env is None:
        env_id = object.__getattribute__(lazy, "_lazy_id")
        if env_id is None:
            raise RuntimeError(f"this run has no environment: {ID_VARIABLE} is not set")
        import gymnasium

        from a2perf.domains.registry import register_environments

        register_environments()
        env = gymnasium.make(env_id, **object.__getattribute__(lazy, "_lazy_kwargs"))
        object.__setattr__(lazy, "_lazy_env", env)
    return env
