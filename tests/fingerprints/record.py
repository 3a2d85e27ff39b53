"""Records the fingerprints of a domain's ids: ``python -m tests.fingerprints.record quadruped_locomotion``.

Writes ``tests/fingerprints/<id>.json`` and the packaged ``a2perf/domains/<domain>/data/fingerprints.json``. Only for a
new id or a new version: a recorded id must not change.
"""

import json
import sys
from pathlib import Path

from a2perf.domains import get_domain
from tests.fingerprints.computed import environment_fingerprint

ROOT = Path(__file__).parent.parent.parent


def main(domain_name: str, *only: str) -> None:
    domain = get_domain(domain_name)
    packaged = ROOT / "a2perf/domains" / domain_name / "data" / "fingerprints.json"
    table = json.loads(packaged.read_text()) if packaged.exists() else {}
    for environment in domain.environments:
        if only and environment.id not in only:
            continue
        fingerprint = environment_fingerprint(environment.id)
        table[environment.id] = fingerprint
        text = json.dumps(fingerprint, indent=1, sort_keys=True) + "\n"
        (ROOT / "tests/fingerprints" / f"{environment.id}.json").write_text(text)
        print(environment.id, fingerprint["sha256"])
    packaged.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
