# SPDX-License-Identifier: Apache-2.0
"""Other people's tools carry releases: skopeo copies them, Debian's docker-registry keeps them, and what
arrives is byte for byte what was signed."""

import hashlib
import json
import os
import urllib.request

import harness
import made_up

MANIFEST_TYPES = ", ".join(["application/vnd.oci.image.index.v1+json",
                            "application/vnd.oci.image.manifest.v1+json"])


class Registry:
    """Debian's docker-registry on loopback, its data in a folder of the test's."""

    def __init__(self, case):
        folder = case.tmp / "registry"
        folder.mkdir()
        config = folder / "config.yml"
        config.write_text(f"version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n"
                          f"    rootdirectory: {folder / 'data'}\nhttp:\n  addr: 127.0.0.1:0\n")
        # Its own settings may come from OTEL_ and REGISTRY_ variables: none of ours may reach it.
        env = {key: value for key, value in os.environ.items() if not key.startswith("REGISTRY_")}
        self.process = case.background(harness.find_tool("docker-registry"), "serve", config, env=env)
        self.address = self.process.line(r"listening on (127\.0\.0\.1:\d+)")[1]

    def reference(self, tag, repository="team/kernels"):
        return f"docker://{self.address}/{repository}:{tag}"

    def source(self, tag="", repository="team/kernels"):
        return f"http://{self.address}/{repository}" + (f":{tag}" if tag else "")

    def digest(self, tag, repository="team/kernels"):
        """The digest of the very bytes the registry serves under a tag."""
        request = urllib.request.Request(f"http://{self.address}/v2/{repository}/manifests/{tag}",
                                         headers={"Accept": MANIFEST_TYPES})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return "sha256:" + hashlib.sha256(answer.read()).hexdigest()


class Case(made_up.Case):
    def setUp(self):
        super().setUp()
        self.store = self.make_store()
        self.key, self.public = self.make_key()
        created = self.make_release(self.store, key=self.key)
        self.index = created["index"]
        self.signature_tag = "sha256-" + self.index.split(":")[1]
        self.registry = Registry(self)

    def skopeo(self, source, destination, *options, **run_options):
        return self.run_program("skopeo", "--insecure-policy", "copy", "--src-tls-verify=false",
                                "--dest-tls-verify=false", *options, source, destination, **run_options)

    def copy_release(self, source_of, destination_of):
        """Both copies of the documented way: the release, then its signature."""
        for tag in ("r1", self.signature_tag):
            self.skopeo(source_of(tag), destination_of(tag), "--all", "--preserve-digests")

    def verify(self, source, **options):
        return self.cubinary("verify", source, "--key", self.public, **options)


class FromALayout(Case):
    def setUp(self):
        super().setUp()
        self.exported = self.export(self.store)
        self.layout = self.tmp / "layout"

    def from_layout(self, tag):
        return f"oci:{self.layout}:{tag}"

    def test_to_a_registry_and_back(self):
        self.copy_release(self.from_layout, self.registry.reference)
        self.assertEqual(self.registry.digest("r1"), self.index)
        signature = [d for d in json.loads((self.layout / "index.json").read_text())["manifests"]
                     if d["annotations"]["org.opencontainers.image.ref.name"] == self.signature_tag]
        self.assertEqual(self.registry.digest(self.signature_tag), signature[0]["digest"])
        self.verify(self.registry.source("r1"))
        self.verify(self.registry.source())

        # And back into a layout, by skopeo alone: the same tree of blobs.
        back = self.tmp / "back"
        self.copy_release(self.registry.reference, lambda tag: f"oci:{back}:{tag}")
        names = sorted(path.name for path in (self.layout / "blobs" / "sha256").iterdir())
        self.assertEqual(sorted(path.name for path in (back / "blobs" / "sha256").iterdir()), names)
        self.verify(f"{back}:r1")

    def test_an_export_adds_to_a_layout_of_skopeo(self):
        shared = self.tmp / "shared"
        self.copy_release(self.from_layout, lambda tag: f"oci:{shared}:{tag}")
        self.make_release(self.store, "r2", key=self.key)
        second = self.export(self.store, "r2", shared)
        self.assertLess(second["blobs_written"], second["blobs"])
        tags = [d["annotations"]["org.opencontainers.image.ref.name"]
                for d in json.loads((shared / "index.json").read_text())["manifests"]]
        self.assertEqual(len(tags), 4)
        self.verify(f"{shared}:r1")
        self.verify(f"{shared}:r2")
        self.skopeo(f"oci:{shared}:r2", self.registry.reference("r2"), "--all", "--preserve-digests")
        self.assertEqual(self.registry.digest("r2"), second["index"])

    def test_a_release_without_its_signature(self):
        self.skopeo(self.from_layout("r1"), self.registry.reference("r1"), "--all", "--preserve-digests")
        self.assertEqual(self.registry.digest("r1"), self.index)
        self.refused("verify", self.registry.source("r1"), "--key", self.public, status=1,
                     says=["sign", self.signature_tag[:12]])

    def test_a_copy_without_all_is_one_clear_sentence(self):
        # Without --all skopeo takes this machine's platform, of which our index knows nothing: some
        # versions refuse, others copy one target's manifest. Only the second leaves something to verify,
        # so it is also made by hand.
        target = json.loads((self.layout / "blobs" / "sha256" / self.index.split(":")[1]).read_text())
        digest = target["manifests"][0]["digest"]
        single = self.tmp / "single"
        self.copy_release(self.from_layout, lambda tag: f"oci:{single}:{tag}")
        index = json.loads((single / "index.json").read_text())
        for descriptor in index["manifests"]:
            if descriptor["annotations"]["org.opencontainers.image.ref.name"] == "r1":
                descriptor["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
                descriptor["digest"] = digest
                descriptor["size"] = target["manifests"][0]["size"]
        (single / "index.json").write_text(json.dumps(index))
        self.skopeo(f"oci:{single}:r1", self.registry.reference("r1"), "--preserve-digests")
        self.assertEqual(self.registry.digest("r1"), digest)
        for source in (self.registry.source("r1"), f"{single}:r1"):
            self.refused("verify", source, "--key", self.public, status=1,
                         says=["one target's manifest, not a release", "--all"])

    def test_a_wrong_key(self):
        self.copy_release(self.from_layout, self.registry.reference)
        _, other = self.make_key("other.key")
        self.refused("verify", self.registry.source("r1"), "--key", other, status=1, says="key")


class FromTheServer(Case):
    def setUp(self):
        super().setUp()
        server = self.background(harness.binary(), "serve", "--store", self.store, "--listen", "127.0.0.1:0")
        self.address = server.line(r"http://(127\.0\.0\.1:\d+)")[1]

    def from_server(self, tag):
        return f"docker://{self.address}/cubinary:{tag}"

    def test_to_a_registry(self):
        self.copy_release(self.from_server, self.registry.reference)
        self.assertEqual(self.registry.digest("r1"), self.index)
        self.verify(self.registry.source("r1"))
        self.verify(f"http://{self.address}/cubinary:r1")

    def test_to_a_layout(self):
        layout = self.tmp / "pulled"
        self.copy_release(self.from_server, lambda tag: f"oci:{layout}:{tag}")
        self.verify(f"{layout}:r1")
        exported = self.tmp / "exported"
        self.export(self.store, directory=exported)
        self.assertEqual(sorted(path.name for path in (layout / "blobs" / "sha256").iterdir()),
                         sorted(path.name for path in (exported / "blobs" / "sha256").iterdir()))


if __name__ == "__main__":
    harness.need_tools("skopeo", "docker-registry")
    harness.main()
