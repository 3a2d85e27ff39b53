"""The environment that ``load_policy(env, ...)`` receives; it is built on first use.

Most policies need at most its spaces, which the evaluator sends, and building an environment can take seconds. The
evaluator never uses its results.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from typing import Any

from a2perf.submission.participant.wire import SPACES

ID_VARIABLE = "A2PERF_ENV_ID"
KWARGS_VARIABLE = "A2PERF_ENV_KWARGS"


class LazyEnvironment:
    """Proxy of ``gymnasium.make(env_id, **kwargs)``; attribute access builds the environment, unless it is a space.

    ``isinstance(env, gymnasium.Env)`` is true; gymnasium is imported only when ``__class__`` or a space is read.
    """

    def __init__(self, env_id: str | None, kwargs: Mapping[str, Any], spaces: Mapping[str, Any] | None = None) -> None:
        # Setting an attribute would build the environment.
        vars(self).update(_lazy_id=env_id, _lazy_kwargs=dict(kwargs), _lazy_env=None, _lazy_spaces=dict(spaces or {}))

    @classmethod
    def from_variables(cls, spaces: Mapping[str, Any] | None = None) -> LazyEnvironment:
        """Returns the environment that ``A2PERF_ENV_ID`` and ``A2PERF_ENV_KWARGS`` name."""
        return cls(os.environ.get(ID_VARIABLE), json.loads(os.environ.get(KWARGS_VARIABLE) or "{}"), spaces)

    def __getattr__(self, name: str) -> Any:
        if name in SPACES and self._lazy_env is None:
            known = self._lazy_spaces
            if type(known.get(name)) is tuple:
                try:
                    known[name] = _made(*known[name])
                except Exception:  # the participant's Gymnasium makes it in another way
                    del known[name]
            if name in known:
                return known[name]
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
        return f"<{self._lazy_id}, not built yet>" if self._lazy_env is None else repr(self._lazy_env)

    def __reduce__(self) -> tuple[Any, ...]:
        return (LazyEnvironment, (self._lazy_id, self._lazy_kwargs, self._lazy_spaces))

    def close(self) -> None:
        """Closes the environment if it was built."""
        if self._lazy_env is not None:
            self._lazy_env.close()


def _made(kind: str, arguments: tuple[Any, ...]) -> Any:
    """Returns a space; see the evaluator's ``plain_spaces``."""
    module, _, name = kind.partition(":")
    make = getattr(importlib.import_module(module), name)
    if name == "Dict":
        return make([(key, _made(*part)) for key, part in arguments])
    return make([_made(*part) for part in arguments]) if name == "Tuple" else make(*arguments)


def _built(lazy: LazyEnvironment) -> Any:
    if lazy._lazy_env is None:
        if lazy._lazy_id is None:
            raise RuntimeError(f"this run has no environment: {ID_VARIABLE} is not set")
        import gymnasium

        from a2perf.domains.registry import register_environments

        register_environments()
        env = gymnasium.make(lazy._lazy_id, **lazy._lazy_kwargs)
        for name, space in lazy._lazy_spaces.items():
            if type(space) is type(getattr(env, name)):
                vars(getattr(env, name)).update(vars(space))  # it may have been seeded
        vars(lazy)["_lazy_env"] = env
    return lazy._lazy_env
