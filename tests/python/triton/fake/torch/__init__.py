# SPDX-License-Identifier: Apache-2.0
"""As much of torch as Triton's driver and launcher look at, for tests without one."""

import os


class dtype:
    def __init__(self, name):
        self._name = name

    def __str__(self):
        return f"torch.{self._name}"

    __repr__ = __str__


dtype.__module__ = "torch"
float32, float16, int32 = dtype("float32"), dtype("float16"), dtype("int32")


class Tensor:
    """Memory that exists only as an address."""

    def __init__(self, kind=float32, address=1 << 20):
        self.dtype, self._address, self.shape, self.device = kind, address, (1024,), "cuda"

    def data_ptr(self):
        return self._address

    def stride(self, *_):
        return (1,)

    def zero_(self):
        return self

    def clone(self):
        return Tensor(self.dtype, self._address)

    def copy_(self, _other):
        return self


class version:
    hip = None


class cuda:
    is_available = staticmethod(lambda: True)
    current_device = staticmethod(lambda: 0)
    set_device = staticmethod(lambda _device: None)
    get_device_capability = staticmethod(lambda *_: divmod(int(os.environ.get("STUB_CC", "90")), 10))

    class current_stream:
        cuda_stream = 0

        def __init__(self, *_):
            pass


def device(kind, index=0):
    return f"{kind}:{index}"
