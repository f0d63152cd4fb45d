# SPDX-License-Identifier: Apache-2.0
"""Operands on the GPU, with guards around them; comparison with what was expected."""

import torch

DEVICE = "cuda"
_GUARD = 64  # bytes before and behind, a multiple of every vector


class Placed:
    """A tensor's copy on the GPU, `offset` elements past a 256-byte boundary, among poison."""

    def __init__(self, tensor, offset, poison):
        size = tensor.element_size()
        extent = 0
        if tensor.numel() > 0:
            extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
        self.lead = 256 + offset * size
        self.bytes = torch.full((self.lead + extent * size + _GUARD,), 0xA5, dtype=torch.uint8,
                                device=DEVICE)
        body = self.bytes[self.lead:self.lead + extent * size]
        # A misaligned view of bytes as wider elements is refused, so the last step is as_strided.
        whole = torch.as_strided(self._typed(tensor.dtype, offset), tensor.shape, tensor.stride(),
                                 storage_offset=self.lead // size)
        self.view = whole
        if poison:
            body.fill_(0xFF)  # NaN in every floating dtype
        else:
            self.view.copy_(tensor)
        self.before = self.bytes.clone()

    def _typed(self, dtype, offset):
        size = torch.empty(0, dtype=dtype).element_size()
        usable = self.bytes.numel() // size * size
        return self.bytes[:usable].view(dtype)

    def strayed(self):
        """Whether a byte that is not the view's has changed."""
        now, before = self.bytes.clone(), self.before.clone()
        for copy in (now, before):
            size = self.view.element_size()
            usable = copy.numel() // size * size
            torch.as_strided(copy[:usable].view(self.view.dtype), self.view.shape, self.view.stride(),
                             storage_offset=self.lead // size).copy_(torch.zeros_like(self.view))
        return not torch.equal(now, before)


def alignment(tensor):
    pointer = tensor.data_ptr()
    return 256 if pointer == 0 else min(256, pointer & -pointer)


def deviation(got, expected, relative, absolute):
    """The largest error as a share of what is allowed; infinite where NaN or infinity differ."""
    if got.numel() == 0:
        return 0.0
    got = got.double().cpu().reshape(expected.shape)
    special = ~torch.isfinite(expected)
    same = torch.where(torch.isnan(expected), torch.isnan(got), got == expected)
    error = (got - expected).abs() / (absolute + relative * expected.abs())
    error = torch.where(special, torch.where(same, 0.0, float("inf")), error)
    return float(torch.nan_to_num(error, nan=float("inf")).max())
