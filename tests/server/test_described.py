# SPDX-License-Identifier: Apache-2.0
"""The server does what schema/openapi.yaml says: property-based requests made from it by schemathesis, which
scripts/setup puts into build/deps/schemathesis; skipped aloud without it."""

import os
import pathlib
import subprocess

import harness
import serving

VENV = harness.SOURCE / "build" / "deps" / "schemathesis"
PROGRAM = pathlib.Path(os.environ.get("CUBINARY_SCHEMATHESIS", VENV / "bin" / "schemathesis"))
if not PROGRAM.exists():
    harness.skip(f"no schemathesis at {PROGRAM}: scripts/setup --tests installs it")


class Described(serving.Case):
    def check(self, token, *more):
        done = subprocess.run(
            [PROGRAM, "run", harness.SOURCE / "schema" / "openapi.yaml", "--url", f"http://127.0.0.1:{self.port}",
             "--header", f"Authorization: Bearer {token}", "--seed", "1", "--generation-deterministic",
             "--max-examples", "5", "--max-time", "25", "--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all",
             "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,"
             "response_schema_conformance,unsupported_method", "--no-color", *more],
            capture_output=True, text=True, timeout=280, cwd=self.tmp, check=False)
        print(done.stdout[-4000:], flush=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_the_description_holds(self):
        self.serve("--workers", 8)
        # The backup is a whole store each time; revoking would take the very token away; a batch of artifacts is
        # no type it can make.
        self.check(self.told["all_token"], "--exclude-path", "/api/v1/store/backup", "--exclude-path",
                   "/api/v1/tokens/{id}", "--exclude-path", "/api/v1/artifacts")
        self.check_healthy()
        self.assertTrue(self.ask("/api/v1/store/fsck", method="POST",
                                 Authorization="Bearer " + self.told["all_token"]).json()["sound"])


if __name__ == "__main__":
    harness.main()
