# SPDX-License-Identifier: Apache-2.0
"""Stores, releases and layouts of made-up kernels: for suites that need no compiler."""

import harness


class Case(harness.Case):
    """A test case that can make a signed release in a moment.

    `scale` is on sm_90 and sm_120 (T in f32 and f16), `attend` on sm_90 only (T in f16, d in 64 and 128).
    """

    def make_store(self, *options):
        path = self.tmp / "kernels.db"
        self.run_program(harness.test_program("make_store"), path, *options)
        return path

    def make_key(self, name="release.key"):
        """Gives the paths of the private and the public key."""
        path = self.tmp / name
        self.cubinary("keygen", path)
        return path, self.tmp / (name + ".pub")

    def make_release(self, store, name="r1", key=None, **options):
        """Creates a release, signs it when there is a key, and gives what `create --json` said."""
        created = self.cubinary("release", "create", name, "--store", store, "--json",
                                *options.get("arguments", ())).json()
        if key is not None:
            self.cubinary("release", "sign", name, "--key", key, "--store", store)
        return created

    def export(self, store, name="r1", directory=None):
        directory = directory or self.tmp / "layout"
        return self.cubinary("export", directory, "--store", store, "--release", name, "--json").json()

    def make_layout(self):
        """A signed release r1 as a layout: gives the layout's folder and the public key."""
        store = self.make_store()
        key, public = self.make_key()
        self.make_release(store, key=key)
        self.export(store)
        return self.tmp / "layout", public
