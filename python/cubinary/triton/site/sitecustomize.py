# SPDX-License-Identifier: Apache-2.0
"""On PYTHONPATH, this loads the plug-in that TRITON_CACHE_MANAGER names as soon as Triton itself is imported:
before the first launch, so that nothing is started and nothing races from the first call on. A sitecustomize
that it shadows runs as well."""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _AfterTriton:
    """A finder that lets the others find Triton, and installs the plug-in once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "triton":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                import cubinary.triton

                cubinary.triton.install()

            spec.loader.exec_module = exec_module
        return spec


def _run_shadowed():
    places = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if (
        spec is not None
        and spec.loader is not None
        and os.path.abspath(spec.origin) != os.path.abspath(__file__)
    ):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_run_shadowed()
if os.environ.get("TRITON_CACHE_MANAGER", "").startswith("cubinary.triton:"):
    sys.meta_path.insert(0, _AfterTriton())
