"""The small language model: its two implementations agree, it solves unseen websites."""

from __future__ import annotations

import importlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from a2perf.domains.web_navigation.sites.generator import training_designs

MODULES = ("prompt", "network", "serve", "evaluate", "train", "reading")


@pytest.fixture(autouse=True)
def _example(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(repository / "packages" / "baselines" / "examples" / "small_language_model"))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_most_websites_that_no_training_drew_are_solved() -> None:
    network, evaluate = _module("network").Network.load(), _module("evaluate")
    designs = training_designs(1, evaluate.FIRST_SEED, 10)
    solved, returns, _ = evaluate.play(network, designs, episodes=10)
    # random valid actions solve 5 % of the episodes of level 1; processors may round a borderline action differently
    assert solved >= 8
    assert len(returns) == 10


def _answer(endpoint: str, **fields: Any) -> Any:
    body = json.dumps({"model": "small", "messages": [{"role": "user", "content": "hello"}], **fields}).encode()
    request = urllib.request.Request(f"{endpoint}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read().decode()
    return text if fields.get("stream") else json.loads(text)


def test_the_server_counts_bytes_streams_and_refuses_clearly() -> None:
    serve = _module("serve")
    with serve.running(_module("network").Network.load()) as endpoint:
        whole = _answer(endpoint, max_tokens=5)
        streamed = _answer(endpoint, max_tokens=5, stream=True, stream_options={"include_usage": True})
        refused = []
        for fields in ({"model": "large"}, {"max_tokens": 5000}, {"messages": []}):
            with pytest.raises(urllib.error.HTTPError) as caught:
                _answer(endpoint, **fields)
            refused.append((caught.value.code, json.loads(caught.value.read())["error"]["code"]))
    text = whole["choices"][0]["message"]["content"]
    assert whole["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": len(text),
        "total_tokens": 7 + len(text),
    }
    events = [json.loads(line[6:]) for line in streamed.split("\n\n") if line.startswith("data: {")]
    said = "".join(event["choices"][0]["delta"].get("content", "") for event in events if event["choices"])
    assert said == text
    assert events[-1]["usage"] == whole["usage"]
    assert refused == [(404, "model_not_found"), (400, "context_length_exceeded"), (400, "invalid_request")]


@pytest.mark.group("sb3")  # the environment with Stable-Baselines3 has PyTorch
def test_training_and_inference_compute_the_same_logits() -> None:
    import torch

    train, network = _module("train"), _module("network")
    torch.manual_seed(0)
    model = train.Transformer(network.Shape(width=32, layers=2, heads=2, context=64))
    tokens = list(range(40, 90))
    found = model.exported().logits(tokens)
    with torch.no_grad():
        expected = model(torch.tensor([tokens]))[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    copy = train.Transformer(model.shape)
    copy.restore(model.exported())
    for one, other in zip(model.parameters(), copy.parameters(), strict=True):
        assert torch.equal(one, other)
