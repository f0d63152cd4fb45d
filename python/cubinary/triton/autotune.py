# SPDX-License-Identifier: Apache-2.0
"""Triton's autotuner, mended and answered.

Mended: `run` keeps the arguments of the call in `self.nargs`, which every thread of a process shares, so two
threads in one tuned kernel crash; here each thread has its own, and one thread tunes a key while the others
wait for its result. Answered: a result of the release is taken whatever asks first, for configs with a
`pre_hook` too, and before `early_config_prune` results are needed. In strict mode nothing is ever measured:
an unseen key takes the first config that the release holds, and is recorded as a miss.

Triton's own code stays in charge: it makes the tuning key and the cache key, and launches.
"""

import functools
import json
import logging
import threading

from .environment import strict
from .errors import Missing

_install_lock = threading.Lock()
_observer = None  # capture's: called with (tuner, key, timings, cache key, file name)


log = logging.getLogger("cubinary.triton")


class _NotTuned(Exception):
    """Out of Triton's look into its disk cache: nothing there."""


class _Local(threading.local):
    """What one thread holds while it is inside one tuner's `run`."""

    nargs = None
    kwargs = None
    held = None  # the key lock this thread tunes under
    key = None  # the tuning key it tunes
    timings = None  # what it has measured so far
    chosen = False  # strict: a config was taken
    won = None  # the winner found for a call that was in flight
    cache_key = None
    restore_copies = None

    def __reduce__(self):
        return _Local, ()  # a copied tuner starts with nothing held


def install(observer=None):
    """Mend Triton's Autotuner class. Works on tuners made before, and while calls are in flight."""
    global _observer
    from triton.runtime.autotuner import Autotuner

    with _install_lock:
        if observer is not None:
            _observer = observer
        if hasattr(Autotuner.run, "cubinary_original"):
            return
        Autotuner.nargs = property(_get_nargs, _set_nargs)
        Autotuner.restore_copies = property(_get_restore_copies, _set_restore_copies)
        Autotuner._bench = _mended_bench(Autotuner._bench)
        Autotuner.run = _mended_run(Autotuner.run)


def _local(tuner):
    try:
        return tuner.__dict__["_cubinary"]
    except KeyError:
        # setdefault is atomic: threads that arrive together agree on one object.
        return tuner.__dict__.setdefault("_cubinary", _Local())


# --- per-thread state ---


def _get_nargs(self):
    local = _local(self)
    # A call that was in flight when this was installed left its arguments in the instance.
    return local.nargs if local.nargs is not None else self.__dict__.get("nargs")


def _set_nargs(self, value):
    _local(self).nargs = value


def _get_restore_copies(self):
    copies = _local(self).restore_copies
    return {} if copies is None else copies


def _set_restore_copies(self, value):
    _local(self).restore_copies = value


# --- run ---


def tuning_key(tuner, args, kwargs):
    """Triton's key of a call, (keyed arguments…, dtypes…). Used to find what is there already; a version that makes
    another key finds nothing by it, and makes its own."""
    names = tuner.__dict__.get("_cubinary_names")
    if names is None:
        names = tuner._cubinary_names = frozenset(tuner.arg_names)
    given = dict(zip(tuner.arg_names, args))
    for name, value in kwargs.items():
        if name in names:
            given[name] = value
    key = [given[name] for name in tuner.keys if name in given]
    for value in given.values():
        if hasattr(value, "dtype"):
            key.append(str(value.dtype))
    return tuple(key)


def _mended_run(original):
    @functools.wraps(original)
    def run(self, *args, **kwargs):
        if type(self.cache) is not _Cache:
            _adopt(self)
        # Nearly every call: a key that was tuned, and no hook. Nothing shared is touched.
        elif len(self.configs) > 1:
            config = self.cache.get(tuning_key(self, args, kwargs))
            if config is not None and config.pre_hook is None:
                self.best_config = config
                return self.fn.run(*args, **kwargs, **config.all_kwargs())
        # A hook may launch the tuner it belongs to: what the outer call holds stays its own.
        local = _local(self)
        outer, outermost = local.kwargs, local.held is None
        local.kwargs = kwargs
        try:
            return original(self, *args, **kwargs)
        finally:
            local.kwargs = outer
            if outermost and local.held is not None:
                _finish(local)

    run.cubinary_original = original
    return run


def _adopt(tuner):
    with _install_lock:
        if type(tuner.cache) is not _Cache:
            tuner.cache = _Cache(tuner)


def _finish(local):
    lock, local.held = local.held, None
    local.key = local.timings = local.cache_key = None
    local.chosen = False
    lock.release()


class _Cache(dict):
    """A tuner's results. Asking for a key that is not there, from within `run`, either finds the release's
    answer or leaves the asking thread as the one that tunes this key."""

    __slots__ = ("_tuner", "_locks")

    def __init__(self, tuner):
        super().__init__(tuner.cache)
        self._tuner = tuner
        self._locks = {}

    def __reduce__(self):
        return dict, (dict(self),)

    def __contains__(self, key):
        if dict.__contains__(self, key):
            return True
        local = _local(self._tuner)
        if local.kwargs is None or local.nargs is None or local.held is not None:
            return False
        lock = self._locks.setdefault(key, threading.Lock())
        lock.acquire()
        answered = False
        try:
            answered = dict.__contains__(self, key) or _answer(self._tuner, local, key)
        except BaseException:
            lock.release()
            raise
        if answered:
            lock.release()
            return True
        local.held, local.key, local.timings, local.chosen = lock, key, {}, False
        return False

    def __setitem__(self, key, config):
        local = _local(self._tuner)
        super().__setitem__(key, config)
        if local.held is None or key != local.key or not local.timings:
            return
        if strict():
            _record_miss(self._tuner, local, key, config)
        elif _observer is not None:
            _observer(self._tuner, key, dict(local.timings), local.cache_key)


# --- answers ---


def asked(cache_key, filename):
    """Called by the cache managers: this thread's tuner looks for this result on disk."""
    _asking.last = (cache_key, filename)


class _Asking(threading.local):
    last = None


_asking = _Asking()


class _Probe(tuple):
    """A tuning key to look up with: Triton makes the same cache key of it, and no launch ever finds it, so that
    a config that still lacks its hook is seen by nobody."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __bool__(self):
        return True


def _answer(tuner, local, key):
    """Put the recorded winner of `key` into the tuner's cache. Triton looks it up itself, under the key that
    it computes; configs are shown to it without hooks, which it would refuse, and which its key leaves out."""
    check = getattr(tuner, "check_disk_cache", None)
    if check is None:
        return False
    configs = tuner.prune_configs(local.kwargs)
    probe = _Probe(key)
    _asking.last = None

    def not_tuned():
        raise _NotTuned

    try:
        check(probe, [_without_hook(config) for config in configs], not_tuned)
    except _NotTuned:
        local.cache_key = _asking.last
        return False
    won = dict.pop(tuner.cache, probe, None)
    match = next((config for config in configs if str(config) == str(won)), None)
    if match is None:
        local.cache_key = _asking.last
        return False
    dict.__setitem__(tuner.cache, key, match)
    return True


def _without_hook(config):
    if not getattr(config, "pre_hook", None):
        return config
    import copy

    bare = copy.copy(config)
    bare.pre_hook = None
    return bare


# --- measuring, or not ---


def _mended_bench(original):
    @functools.wraps(original)
    def _bench(self, *args, config, **meta):
        local = _local(self)
        if local.kwargs is None:
            won = _in_flight(self, local, meta)
            if won is not None:
                return [0.0] * 3 if str(config) == str(won) else _NEVER
        if strict():
            timing = _take_first(self, local, args, config, meta)
        else:
            timing = original(self, *args, config=config, **meta)
        if local.timings is not None:
            local.timings[config] = timing
        return timing

    return _bench


def _in_flight(tuner, local, meta):
    """The recorded winner for a `run` that began before this was installed: the plug-in comes with the
    driver, which a program's first launch activates. None when there is none."""
    if local.nargs is None:
        local.nargs = tuner.__dict__.get("nargs")
        if local.nargs is None:
            return None
        key = tuning_key(tuner, local.nargs.values(), meta)
        results = tuner.cache
        local.kwargs, tuner.cache = meta, dict(results)
        try:
            local.won = tuner.cache[key] if _answer(tuner, local, key) else None
        finally:
            local.kwargs, tuner.cache = None, results
    return local.won


_NEVER = [float("inf")] * 3


def _take_first(tuner, local, args, config, meta):
    """Strict mode: zero for the first config whose kernel is here and fits this GPU, infinity for the rest."""
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime.errors import OutOfResources

    if local.chosen:
        return _NEVER
    current = {**meta, **config.all_kwargs(), "warmup": True}
    try:
        kernel = tuner.fn.run(*args, **current)
        if hasattr(kernel, "result"):
            kernel = kernel.result()
        if kernel is not None:
            kernel._init_handles()
    except (Missing, OutOfResources, CompileTimeAssertionFailure):
        return _NEVER
    local.chosen = True
    return [0.0] * 3


def _record_miss(tuner, local, key, config):
    from . import misses

    cache_key, filename = local.cache_key or ("", "")
    name = getattr(tuner.base_fn, "__name__", "")
    misses.record(
        "autotune", cache_key, name, tuning_key=[str(part) for part in key], taken=str(config), file=filename
    )
    log.warning(
        f"cubinary, strict mode: no autotune result for '{name}' with key {key}; took the first config "
        f"that the release holds ({config})."
    )


def document(key, timings):
    """A result file as Triton writes it; hooks cannot be written and are left out."""
    return json.dumps(
        {
            "key": key,
            "configs_timings": [
                ({name: value for name, value in vars(config).items() if name != "pre_hook"}, timing)
                for config, timing in timings.items()
            ],
        },
        default=str,
    )
