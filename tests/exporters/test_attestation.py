"""Attestations: the unmodified libraries of in-toto and securesystemslib verify and parse them, and forgeries fail."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf.json_format import Parse
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

import a2perf
from a2perf.cli.export_attestation import attestation as export_command
from a2perf.cli.sign import verify as verify_command
from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.exporters.attestation import (
    PAYLOAD_TYPE,
    attest,
    attest_verdict,
    statements_of,
    verify_attestation,
)
from a2perf.exporters.predicates import EVALUATION, TEST_RESULT, scores_of
from a2perf.records import RunState
from a2perf.runs import signing
from a2perf.runs.bundle import validate
from a2perf.runs.inventory import checksum, read_manifest
from a2perf.runs.reading import read_runs
from a2perf.storage import json_text
from tests.shipped_runs import SHIPPED, unpacked

TASK = "dog_trot/seed_3/inference"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("small/numpy_ars", tmp_path_factory.mktemp("shipped"))


@pytest.fixture
def bundle(shipped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped / TASK, tmp_path / "runs" / TASK))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    signing.new_key(tmp_path / "keys" / "organizer")
    return tmp_path / "keys" / "organizer"


def library_key(key: Path) -> SSlibKey:
    return SSlibKey.from_crypto(load_pem_public_key(key.with_name(f"{key.name}.pub").read_bytes()))  # type: ignore[arg-type]


def envelopes(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def rewrite(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes every envelope of a file."""
    found = envelopes(file)
    for envelope in found:
        change(envelope)
    file.write_text("".join(json.dumps(envelope) + "\n" for envelope in found))


def payload_of(envelope: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return found


def test_libraries_verify_the_envelopes_and_parse_the_statements(bundle: Path, key: Path) -> None:
    file = attest(bundle, key)
    assert file == bundle.with_name("inference.intoto.jsonl")
    statements = []
    for envelope in envelopes(file):
        opened = Envelope.from_dict(json.loads(json.dumps(envelope)))
        assert opened.payload_type == PAYLOAD_TYPE
        assert list(opened.verify([library_key(key)], 1)) == [library_key(key).keyid]
        statement = Statement.copy_from_pb(Parse(opened.payload, statement_pb2.Statement()))
        statement.validate()
        statements.append(statement.pb)
    assert [statement.predicate_type for statement in statements] == [EVALUATION, TEST_RESULT]
    manifest = read_manifest(bundle)
    for statement in statements:
        digests = {subject.name: subject.digest["sha256"] for subject in statement.subject}
        assert digests == {
            "inference/manifest.json": signing.manifest_sha256(bundle),
            "submission/numpy_ars": manifest.submission.sha256,
        }
    result = Parse(json.dumps(payload_of(envelopes(file)[1])["predicate"]), test_result_pb2.TestResult())
    assert result.result == "WARNED"
    assert list(result.warned_tests) == ["quiet host"]
    assert "run finished" in result.passed_tests
    assert result.configuration[0].digest["sha256"] == manifest.config_sha256


def test_envelope_of_the_library_is_accepted(bundle: Path, key: Path) -> None:
    """The other direction: securesystemslib signs the same statements, and a2perf verifies them."""
    file = attest(bundle, key)
    signer = CryptoSigner.from_priv_key_uri(f"file2:{key}", library_key(key))
    signed = []
    for envelope in envelopes(file):
        made = Envelope(base64.b64decode(envelope["payload"]), PAYLOAD_TYPE, {})
        made.sign(signer)
        signed.append(made.to_dict())
    # Ed25519 is deterministic, so both sign with the same bytes
    assert [one["signatures"] for one in signed] == [one["signatures"] for one in envelopes(file)]
    file.write_text("".join(json.dumps(one) + "\n" for one in signed))
    assert verify_attestation(file, key.parent, bundle).problems == []


def test_evaluation_holds_the_scores_with_provenance_and_the_origin(bundle: Path, key: Path) -> None:
    statement = verify_attestation(attest(bundle, key), key.parent, bundle).statements[0]
    (run,) = read_runs([bundle])
    assert run.manifest is not None
    stated = {score["name"]: score for score in statement.predicate["scores"]}
    expected = {name: value for name, value in scores_of(run).items() if value.value is not None}
    assert {name: score["value"] for name, score in stated.items()} == {n: v.value for n, v in expected.items()}
    assert stated["energy_gross"]["provenance"] == "estimated"
    assert stated["energy_gross"]["unit"] == "kWh"
    assert statement.predicate["energy"]["grossKwh"] == run.tracking.energy.gross_kwh
    assert statement.predicate["energy"]["provenance"] == "estimated"
    assert statement.predicate["environment"]["fingerprint"] == run.manifest.env_fingerprint
    assert statement.predicate["seeds"] == {"scheme": "public", "root": 3, "episodes": 20}
    assert statement.predicate["sandbox"]["level"] == "bubblewrap"
    assert statement.predicate["submission"]["gitCommit"] == run.manifest.submission.git_commit


def test_secret_seeds_and_arguments_are_not_attested(bundle: Path) -> None:
    change_manifest(bundle, lambda data: data["seeds"].update(scheme=2, key="secret-key-of-this-run"))
    text = json.dumps([statement.predicate for statement in statements_of(bundle)])
    assert "secret-key" not in text
    predicate = statements_of(bundle)[0].predicate
    assert predicate["seeds"] == {"scheme": "secret", "root": None, "episodes": 20}
    assert predicate["environment"]["arguments"] is None


def test_bundle_and_its_signature_stay_valid(bundle: Path, key: Path) -> None:
    signing.sign(bundle, key)
    attest(bundle, key)
    assert validate(bundle) == []
    assert signing.verify(bundle, signing.trusted_keys(key.parent)).problems == []


def test_packed_bundle_is_attested_beside_the_file(tmp_path: Path, key: Path) -> None:
    packed = Path(shutil.copy(SHIPPED / "small" / "tf_agents_ppo.zip", tmp_path / "one.zip"))
    runs = read_runs([packed])
    file = attest(runs[0], key, output=tmp_path / "out" / "one.intoto.jsonl")
    assert verify_attestation(file, key.parent, runs[0]).problems == []
    assert verify_attestation(file, key.parent, runs[1]).problems != []


@pytest.mark.parametrize("change", ["payload", "payload type", "signature", "other payload"])
def test_tampered_envelope_is_refused_here_and_by_the_library(bundle: Path, key: Path, change: str) -> None:
    file = attest(bundle, key)
    payloads = [envelope["payload"] for envelope in envelopes(file)]

    def tamper(envelope: dict[str, Any]) -> None:
        if change == "payload":
            content = payload_of(envelope)
            content["predicate"]["note"] = "better"
            envelope["payload"] = base64.b64encode(json.dumps(content).encode()).decode()
        elif change == "payload type":
            envelope["payloadType"] = "application/json"
        elif change == "signature":
            mark = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
            mark[5] ^= 1
            envelope["signatures"][0]["sig"] = base64.b64encode(bytes(mark)).decode()
        else:
            envelope["payload"] = payloads[1 - payloads.index(envelope["payload"])]

    rewrite(file, tamper)
    verdict = verify_attestation(file, key.parent, bundle)
    assert verdict.statements == []
    assert verdict.problems == [
        f"line {number}: no trusted key has signed it, or it was changed after signing" for number in (1, 2)
    ]
    assert not verdict
    for envelope in envelopes(file):
        with pytest.raises(VerificationError):
            Envelope.from_dict(envelope).verify([library_key(key)], 1)


def test_wrong_key_is_refused_whatever_it_calls_itself(bundle: Path, key: Path, tmp_path: Path) -> None:
    signing.new_key(tmp_path / "others" / "stranger")
    stranger = tmp_path / "others" / "stranger"
    file = attest(bundle, stranger)
    rewrite(file, lambda envelope: envelope["signatures"][0].update(keyid=library_key(key).keyid))
    verdict = verify_attestation(file, key.parent, bundle)
    assert (verdict.statements, verdict.signers) == ([], [])
    assert verify_attestation(file, stranger.parent, bundle).signers == ["stranger"]


def test_wrong_and_changed_bundles_are_found(shipped: Path, bundle: Path, key: Path) -> None:
    file = attest(bundle, key)
    other = shipped / "dog_trot" / "seed_2" / "inference"
    assert verify_attestation(file, key.parent, other).problems == [
        f"the statement {kind} is about another bundle" for kind in (EVALUATION, TEST_RESULT)
    ]
    (bundle / "config.gin").write_text("# another configuration")
    problems = verify_attestation(file, key.parent, bundle).problems
    assert any("config.gin" in problem for problem in problems)


def test_attested_scores_that_the_bundle_does_not_give_are_found(bundle: Path, key: Path) -> None:
    """A trusted signer who attests other numbers than those of the bundle."""
    file = attest(bundle, key)
    signer = CryptoSigner.from_priv_key_uri(f"file2:{key}", library_key(key))

    def forge(envelope: dict[str, Any]) -> None:
        content = payload_of(envelope)
        for score in content["predicate"].get("scores", []):
            if score["name"] == "returns":
                score["value"] += 1.0
        made = Envelope(json.dumps(content).encode(), PAYLOAD_TYPE, {})
        made.sign(signer)
        envelope.update(made.to_dict())

    rewrite(file, forge)
    (problem,) = verify_attestation(file, key.parent, bundle).problems
    assert problem.startswith("the attested returns is 2.69")
    assert verify_attestation(file, key.parent).problems == []


def test_numbers_come_from_the_files_and_not_from_memory(bundle: Path, key: Path) -> None:
    (run,) = read_runs([bundle])
    run.returns["inference"]["dog_trot"][:] = 1000.0
    scores = verify_attestation(attest(run, key), key.parent, bundle).statements[0].predicate["scores"]
    assert next(score["value"] for score in scores if score["name"] == "returns") == pytest.approx(1.696423667)


def change_manifest(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes a manifest and its checksum, as a run with these values would have written it."""
    path = bundle / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    data["checksum"] = checksum(data)
    path.write_text(json_text(data))


def test_unfinished_and_changed_bundles_are_not_attested(bundle: Path, key: Path) -> None:
    change_manifest(bundle, lambda data: data.update(state=RunState.RUNNING.value))
    with pytest.raises(UserError, match="is not finished"):
        attest(bundle, key)
    change_manifest(bundle, lambda data: data.update(state=RunState.FINISHED.value))
    (bundle / "metrics" / "added.json").write_text("{}")
    with pytest.raises(UserError, match=r"added\.json: a file that is not in the manifest|added\.json"):
        attest(bundle, key)
    assert not bundle.with_name("inference.intoto.jsonl").exists()


def test_failed_run_is_attested_as_failed(bundle: Path, key: Path) -> None:
    change_manifest(bundle, lambda data: data.update(state=RunState.FAILED.value))
    assert statements_of(bundle)[1].predicate["result"] == "FAILED"
    assert statements_of(bundle)[1].predicate["failedTests"] == ["run finished"]


def test_several_runs_a_curve_and_unreadable_keys_are_refused(shipped: Path, key: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="an attestation is about one"):
        attest(shipped, key)
    (tmp_path / "curve.csv").write_text("step,return\n1,2\n2,3\n")
    with pytest.raises(UserError, match=r"is not a bundle \(CSV file\)"):
        attest(tmp_path / "curve.csv", key)
    with pytest.raises(ConfigError, match="cannot be read"):
        attest(shipped / TASK, tmp_path / "missing.key", output=tmp_path / "a.intoto.jsonl")
    assert not (tmp_path / "a.intoto.jsonl").exists()


def test_missing_package_names_its_extra(bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = attest(bundle, key)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(MissingDependency, match=r"cryptography.*\n.*pip install -e .*\[signing\]"):
        attest(bundle, key)
    with pytest.raises(MissingDependency, match="cryptography"):
        verify_attestation(file, key.parent)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "0 lines"),
        ("{\n", "line 1, is not a signed envelope"),
        ('{"payload": "", "payloadType": "x"}\n', "signatures"),
        ("\xff\n", "line 1"),
    ],
)
def test_files_that_are_no_attestations_are_refused(tmp_path: Path, key: Path, text: str, reason: str) -> None:
    file = tmp_path / "x.intoto.jsonl"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=reason):
        verify_attestation(file, key.parent)
    with pytest.raises(UserError, match="cannot be read"):
        verify_attestation(tmp_path / "missing.intoto.jsonl", key.parent)


def test_statements_of_another_kind_are_problems(bundle: Path, key: Path) -> None:
    file = attest(bundle, key)
    signer = CryptoSigner.from_priv_key_uri(f"file2:{key}", library_key(key))
    lines = []
    for kind, content in (("text/plain", b"{}"), (PAYLOAD_TYPE, b"[]"), (PAYLOAD_TYPE, b'{"_type": "x"}')):
        made = Envelope(content, kind, {})
        made.sign(signer)
        lines.append(json.dumps(made.to_dict()))
    lines.append(json.dumps({"payload": "not base64!", "payloadType": PAYLOAD_TYPE, "signatures": []}))
    file.write_text("\n".join(lines) + "\n")
    verdict = verify_attestation(file, key.parent)
    assert verdict.statements == []
    assert [problem.split(":")[0] for problem in verdict.problems] == ["line 1", "line 2", "line 3", "line 4"]


def test_verdict_of_a_comparison_is_a_test_result_about_all_runs(shipped: Path, key: Path, tmp_path: Path) -> None:
    runs = [shipped / f"dog_trot/seed_{seed}/inference" for seed in (1, 2, 3)]
    file = attest_verdict({"dog_trot": "PASS", "dog_pace": "REGRESSION"}, runs, key, tmp_path / "v.intoto.jsonl")
    (statement,) = verify_attestation(file, key.parent).statements
    assert statement.predicate["result"] == "FAILED"
    assert (statement.predicate["passedTests"], statement.predicate["failedTests"]) == (["dog_trot"], ["dog_pace"])
    hashes = [subject.digest["sha256"] for subject in statement.subject]
    assert len(hashes) == 4  # three manifests and the submission that they share
    assert {signing.manifest_sha256(run) for run in runs} < set(hashes)
    with pytest.raises(UserError, match="unknown verdict 'PASSED'; did you mean 'PASS'"):
        attest_verdict({"dog_trot": "PASSED"}, runs, key, tmp_path / "w.intoto.jsonl")


def test_comparison_is_attested_by_task(shipped: Path, key: Path, tmp_path: Path) -> None:
    runs = a2perf.read_runs(shipped, SHIPPED / "small" / "minimal.zip").where(mode="inference")
    comparison = a2perf.compare(runs, baseline="minimal", candidate="numpy_ars", tasks=["dog_pace", "dog_trot"])
    compared = runs.where(lambda result: result.task in ("dog_pace", "dog_trot"))
    file = attest_verdict(comparison, compared, key, tmp_path / "v.intoto.jsonl")
    (statement,) = verify_attestation(file, key.parent).statements
    verdicts = {one.env: one.verdict.value for one in comparison.judgements["numpy_ars"]}
    stated = {**dict.fromkeys(statement.predicate["passedTests"], "PASS"),
              **dict.fromkeys(statement.predicate["warnedTests"], "INCONCLUSIVE"),
              **dict.fromkeys(statement.predicate["failedTests"], "REGRESSION")}  # fmt: skip
    assert stated == verdicts
    assert len(stated) == 2
    assert len(statement.subject) == 12 + 2  # six runs of each submission, and the two submissions


def test_commands_attest_and_verify(bundle: Path, shipped: Path, key: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    done = run(export_command, [str(bundle), "--key", str(key)], standalone_mode=False)
    assert done.return_value == 0
    file = str(bundle.with_name("inference.intoto.jsonl"))
    assert done.output.strip() == f"{bundle}: {file}"
    checked = run(verify_command, [file, "--trusted-keys", str(key.parent)], standalone_mode=False)
    assert checked.return_value == 0
    assert checked.output.startswith(f"{file}: SIGNED by organizer (key ")
    many = run(export_command, [str(shipped / "dog_trot"), "--key", str(key), "-o", str(tmp_path / "out"), "--json"],
               standalone_mode=False)  # fmt: skip
    assert len(json.loads(many.output)) == 6
    assert len(list((tmp_path / "out").glob("*.intoto.jsonl"))) == 6
    (bundle / "config.gin").write_text("changed")
    refused = run(export_command, [str(bundle), "--key", str(key)], standalone_mode=False)
    assert refused.return_value == 1
    assert "NOT ATTESTED" in refused.output
    changed = run(verify_command, [file, "--trusted-keys", str(key.parent), "--json"], standalone_mode=False)
    assert changed.return_value == 1
    assert "config.gin" in json.loads(changed.output)[file]["problems"][0]
    with pytest.raises(ConfigError, match="does not contain the public key"):
        run(verify_command, [file, "--any-key"], standalone_mode=False, catch_exceptions=False)
