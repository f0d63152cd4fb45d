# SPDX-License-Identifier: Apache-2.0
"""Shapes of the kernels on tensor cores: one of everything, primes, a tile and one more, empty."""

_EPILOGUES = [dict(), dict(bias=True, residual=True, activation=1), dict(bias=True, activation=2),
              dict(residual=True, activation=3)]


def _gemm(*sizes):
    return [dict(M=m, N=n, K=k, **epilogue) for m, n, k in sizes for epilogue in _EPILOGUES]


def _attention(batch, q_len, kv_len, kv_heads, group, **more):
    return [dict(batch=batch, q_len=q_len, kv_len=kv_len, kv_heads=kv_heads, group=group, head_dim=d, **more)
            for d in (64, 128, 256)]


def _paged(batch, kv_heads, group, pages, max_pages, page_size):
    return [dict(batch=batch, kv_heads=kv_heads, group=group, pages=pages, max_pages=max_pages,
                 page_size=page_size, head_dim=d) for d in (64, 128, 256)]


def _delta(dims, *shapes, **more):
    return [dict(batch=b, tokens=t, k_heads=h, group=g, key_dim=k, value_dim=v, **more)
            for b, t, h, g in shapes for k, v in dims]


MATRIX_CASES = {
    "gemm_nt": _gemm((1, 1, 1), (33, 70, 1002), (17, 65, 77), (129, 257, 104), (300, 520, 264), (5, 3, 0),
                     (0, 3, 8), (193, 1031, 72)),
    "gemm_small_m": _gemm((1, 1, 1), (1, 64, 8), (7, 70, 1002), (17, 65, 77), (64, 257, 104), (33, 520, 2640),
                          (5, 3, 0), (0, 3, 8), (70, 100, 512)),
    "flash_attention": [
        *_attention(1, 1, 1, 1, 1), *_attention(2, 7, 130, 2, 3), *_attention(1, 200, 333, 1, 2, scale=0.25),
        *_attention(1, 333, 200, 1, 1), *_attention(1, 129, 257, 1, 1, causal=0),
        *_attention(2, 64, 0, 1, 2, causal=0), *_attention(0, 5, 5, 1, 1), *_attention(1, 0, 5, 1, 1),
        *_attention(1, 65, 65, 1, 1, lse=False), *_attention(1, 300, 1100, 2, 2), *_attention(1, 200, 1000, 1, 1, causal=0),
        *_attention(3, 260, 290, 10, 6)],  # more tiles than multiprocessors
    "paged_attention_decode": [
        *_paged(1, 1, 1, 4, 1, 16), *_paged(3, 2, 4, 100, 40, 16), *_paged(2, 1, 7, 30, 50, 7),
        *_paged(2, 2, 17, 9, 5, 64), *_paged(2, 1, 3, 300, 500, 1), *_paged(0, 1, 1, 4, 1, 16),
        *_paged(2, 1, 1, 4, 0, 16), *_paged(1, 1, 2, 700, 700, 16)],
    "gated_delta_rule": _delta([(k, v) for k in (64, 128) for v in (64, 128)], (1, 1, 1, 1), (2, 63, 1, 2),
                               (1, 65, 2, 1), (1, 300, 1, 3), (1, 0, 1, 1), (0, 5, 1, 1))
    + _delta([(128, 128)], (1, 130, 1, 1), initial=False, normalise=0, scale=0.5),
    "gated_delta_rule_decode": _delta([(k, v) for k in (64, 128, 256) for v in (100, 128)], (1, 1, 1, 1),
                                      (2, 1, 2, 2), (3, 4, 1, 3), (1, 0, 1, 1), (0, 1, 1, 1)),
}
