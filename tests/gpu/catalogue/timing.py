# SPDX-License-Identifier: Apache-2.0
"""Device times with a cold L2, by events in a stream that never runs dry."""

import statistics

import torch


class Clock:
    def __init__(self):
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.cold = 2 * l2
        # Read, not written, between samples: dirty lines would be written back at the sample's cost.
        self.flush = torch.randint(0, 100, (max(4 * l2, 256 << 20) // 4,), dtype=torch.int32, device="cuda")
        self.sink = torch.empty((), dtype=torch.int64, device="cuda")

    def settle(self, seconds=0.5):
        """Clocks rise under load."""
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        while True:
            for _ in range(20):
                a @ a
            end.record()
            end.synchronize()
            if start.elapsed_time(end) > seconds * 1e3:
                return

    def microseconds(self, works, samples=10, warm=2):
        """Median time of each of `works`, callables, taken in turn: what one sample meets, all meet."""
        for work in works:
            for _ in range(warm):
                work()
        torch.cuda.synchronize()
        pairs = [[] for _ in works]
        for _ in range(samples):
            for work, found in zip(works, pairs):
                torch.sum(self.flush, dim=0, out=self.sink)
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                work()
                end.record()
                found.append((start, end))
        torch.cuda.synchronize()
        return [statistics.median(s.elapsed_time(e) for s, e in found) * 1e3 for found in pairs]

    def copy_rate(self):
        """GB/s, read and written, of a device-to-device copy of 1 GiB."""
        a = torch.randint(0, 100, (1 << 28,), dtype=torch.int32, device="cuda")
        b = torch.empty_like(a)
        return 2 * 4 * a.numel() / self.microseconds([lambda: b.copy_(a)])[0] / 1e3
