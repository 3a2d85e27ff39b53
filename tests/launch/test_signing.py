"""Signed bundles: any changed byte is found, and so is a signer whom nobody trusts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from a2perf.cli.bundles import sign as sign_command
from a2perf.cli.bundles import validate as validate_command
from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.records import Episode, LatencyResults, Manifest, RolloutResults, RunState, SubmissionIdentity
from a2perf.runs import signing
from a2perf.runs.bundles.bundle import Bundle, open_bundle, validate
from a2perf.runs.bundles.inventory import checksum
from a2perf.storage import json_text, write_record


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return finished(tmp_path / "root" / "inference", "inference")


def finished(path: Path, mode: str) -> Path:
    """Writes a finished bundle with files in it, as a run does."""
    manifest = Manifest(
        a2perf_version="1.0.0",
        mode=mode,
        domain="web_navigation",
        task="t",
        env_id="E-v0",
        env_kwargs={},
        env_fingerprint=None,
        submission=SubmissionIdentity(name="s", path="s", sha256="ab" * 32),
        root_seed=7,
        seeds={"episodes": [1, 2]},
        participant_args={},
        config_sha256="0" * 64,
        state=RunState.RUNNING,
        attempts=[],
    )
    opened = open_bundle(path, manifest, "# config\n")
    assert isinstance(opened, Bundle)
    write_record(opened.metrics / "latency.json", LatencyResults(observations="none"))
    played = [
        Episode(index=index, seed=seed, episode_return=seed / 2, length=1, terminated=True, truncated=False)
        for index, seed in enumerate(manifest.seeds["episodes"])
    ]
    write_record(opened.metrics / "rollouts.json", RolloutResults(task="t", env_id="E-v0", episodes=played))
    (opened.metrics / "more" / "a").mkdir(parents=True)
    (opened.metrics / "more" / "a" / "values.json").write_text("[1.5, 2.5]")
    (opened.logs / "stdout.log").write_bytes(b"\x00\xffbytes")
    (opened.artifacts / "weights" / "empty").mkdir(parents=True)
    (opened.artifacts / "weights" / "run.sh").write_text("#!/bin/sh\n")
    (opened.artifacts / "weights" / "run.sh").chmod(0o755)
    (opened.artifacts / "latest").symlink_to("weights/run.sh")
    Path(os.fsdecode(os.fsencode(opened.artifacts) + b"/na\xff\\me\n")).write_text("odd name")
    with opened.journal() as journal:
        for episode in played:
            journal.append({"kind": "episode", "episode": msgspec.to_builtins(episode)})
    opened.manifest.timings_s["load"] = 1 / 3
    opened.finish(RunState.FINISHED, exit_code=0, reason="finished")
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    signing.new_key(tmp_path / "keys" / "organizer")
    return tmp_path / "keys" / "organizer"


def trusted(key: Path) -> list[tuple[str, bytes]]:
    return signing.trusted_keys(key.parent)


def test_a_number_in_the_manifest_cannot_be_bettered_even_with_its_checksum(bundle: Path, key: Path) -> None:
    signing.sign(bundle, key)
    data = json.loads((bundle / "manifest.json").read_text())
    data["root_seed"] = 8
    data["checksum"] = checksum(data)
    (bundle / "manifest.json").write_text(json_text(data))
    assert validate(bundle) == []
    assert signing.verify(bundle, trusted(key)).problems == ["manifest.json is not the one that was signed"]


def test_a_signed_bundle_stays_valid_and_says_who_signed(bundle: Path, key: Path) -> None:
    made = signing.sign(bundle, key)
    assert validate(bundle) == []
    verdict = signing.verify(bundle, trusted(key))
    assert (verdict.problems, verdict.signer) == ([], "organizer")
    assert verdict.key_id == signing.key_id(trusted(key)[0][1])
    assert made.statement.submission_sha256 == "ab" * 32
    signing.sign(bundle, key)  # again, as after a change of key
    assert signing.verify(bundle, trusted(key)).problems == []


def test_every_byte_of_the_signature_itself_counts(bundle: Path, key: Path) -> None:
    signing.sign(bundle, key)
    keys, file = trusted(key), bundle / "signature.json"
    sound = file.read_bytes()
    unseen = []
    for place in range(len(sound)):
        file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        if not signing.verify(bundle, keys).problems:
            unseen.append(place)
    assert unseen == []
    file.write_bytes(sound)
    assert signing.verify(bundle, keys).problems == []


def test_a_stranger_who_signs_anew_is_not_trusted(bundle: Path, key: Path, tmp_path: Path) -> None:
    signing.sign(bundle, key)
    signing.new_key(tmp_path / "other" / "stranger")
    signing.sign(bundle, tmp_path / "other" / "stranger")
    (problem,) = signing.verify(bundle, trusted(key)).problems
    assert "not trusted" in problem
    assert signing.verify(bundle, None).problems == []


def test_a_signature_of_another_bundle_does_not_fit(bundle: Path, key: Path, tmp_path: Path) -> None:
    other = finished(tmp_path / "other" / "inference", "inference")
    signing.sign(other, key)
    (bundle / "signature.json").write_bytes((other / "signature.json").read_bytes())
    assert signing.verify(bundle, trusted(key)).problems == ["manifest.json is not the one that was signed"]


def test_an_unsigned_bundle_is_said(bundle: Path, key: Path) -> None:
    assert signing.verify(bundle, trusted(key)).problems == ["it is not signed"]
    assert "does not exist" in signing.verify(bundle.parent, None).problems[0]


def test_only_what_has_ended_and_is_unchanged_is_signed(bundle: Path, key: Path, tmp_path: Path) -> None:
    (bundle / "operative_config.gin").write_text("changed")
    with pytest.raises(UserError, match=r"config\.gin was changed after the run"):
        signing.sign(bundle, key)
    running = finished(tmp_path / "b" / "train", "train")
    data = json.loads((running / "manifest.json").read_text())
    (running / "manifest.json").write_text(json.dumps({**data, "state": "running", "checksum": None}))
    with pytest.raises(UserError, match="state: running"):
        signing.sign(running, key)
    assert not (running / "signature.json").exists()


def test_keys_are_private_and_never_overwritten(key: Path, bundle: Path, tmp_path: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="exists already"):
        signing.new_key(key)
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others"):
        signing.sign(bundle, key)
    (tmp_path / "no.pem").write_text("no key")
    (tmp_path / "no.pem").chmod(0o600)
    with pytest.raises(ConfigError, match="holds no private key"):
        signing.sign(bundle, tmp_path / "no.pem")
    with pytest.raises(ConfigError, match="holds no public key"):
        signing.trusted_keys(tmp_path / "no.pem")


def test_one_file_may_hold_several_trusted_keys(key: Path, tmp_path: Path) -> None:
    second = signing.new_key(tmp_path / "second")
    both = tmp_path / "both.pem"
    both.write_bytes((key.parent / "organizer.pub").read_bytes() + second.read_bytes())
    assert [name for name, _ in signing.trusted_keys(both)] == ["both", "both#2"]
    assert len({raw for _, raw in signing.trusted_keys(both)}) == 2


def test_commands_make_a_key_sign_and_verify(bundle: Path, tmp_path: Path) -> None:
    key = tmp_path / "k" / "me"
    status, output = run(sign_command, str(bundle), "--new-key", str(key))
    assert status == 0
    assert str(key) in output
    status, output = run(validate_command, str(bundle), "--signed-by", f"{key}.pub", "--json")
    (record,) = json.loads(output).values()
    assert (status, record["problems"], record["signer"]) == (0, [], "me")
    assert run(validate_command, str(bundle))[0] == 0
    (bundle / "logs" / "stdout.log").write_text("other")
    status, output = run(validate_command, str(bundle), "--signed-by", "any")
    assert status == 1
    assert "INVALID\n  logs/stdout.log was changed after the run" in output
    with pytest.raises(ConfigError, match="no trusted keys"):
        run(validate_command, str(bundle), "--signed-by", "trusted")


def test_without_the_library_the_mend_is_said(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(MissingDependency) as caught:
        signing.verify(bundle, None)
    assert "pip install -e '.[signing]'" in str(caught.value)


def run(command: object, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)  # type: ignore[arg-type]
    if done.exception:
        raise done.exception
    return done.return_value or 0, done.output
