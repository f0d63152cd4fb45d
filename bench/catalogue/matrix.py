# SPDX-License-Identifier: Apache-2.0
"""Kernels on tensor cores: products, attention, the gated delta rule."""

import torch
import torch.nn.functional as F
from row import Row, empty, normal, optional
from torch.nn.attention import SDPBackend, sdpa_kernel


def gemm(kernel, M, N, K, epilogue=False, dtype="bf16"):
    def operands():
        return dict(c=empty(M, N, dtype=dtype), a=normal(M, K, dtype=dtype), b=normal(N, K, dtype=dtype),
                    bias=normal(N, dtype=dtype) if epilogue else None,
                    residual=normal(M, N, dtype=dtype) if epilogue else None)

    def eager(o):  # cuBLAS
        if epilogue:
            return F.silu(F.linear(o["a"], o["b"], o["bias"])) + o["residual"]
        return torch.matmul(o["a"], o["b"].T)
    return Row(kernel, {"T": dtype}, dict(M=M, N=N, K=K), operands, eager, compiled=epilogue,
               note="bias silu residual" if epilogue else "", scalars=dict(activation=int(epilogue)))


def attention(batch, length, kv_heads, group, head_dim, causal):
    heads = kv_heads * group

    def operands():
        return dict(o=empty(batch, length, heads, head_dim), lse=None, q=normal(batch, length, heads, head_dim),
                    k=normal(batch, length, kv_heads, head_dim), v=normal(batch, length, kv_heads, head_dim))

    def call(o, backend):
        q, k, v = (o[n].transpose(1, 2) for n in "qkv")
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=group > 1)

    def others(o):
        return {"cudnn": lambda: call(o, SDPBackend.CUDNN_ATTENTION)}
    flops = 4 * batch * heads * length * length * head_dim // (2 if causal else 1)
    return Row("flash_attention", {"T": "bf16"},
               dict(batch=batch, q_len=length, kv_len=length, kv_heads=kv_heads, group=group, head_dim=head_dim),
               operands, lambda o: call(o, SDPBackend.FLASH_ATTENTION), others, compiled=False,
               note="causal" if causal else "full", flops=flops, scalars=dict(causal=causal, scale=0.0))


def paged(batch, kv_heads, group, head_dim, page_size, length):
    pages = length // page_size

    def operands():
        shape = (batch * pages, page_size, kv_heads, head_dim)
        return dict(o=empty(batch, kv_heads * group, head_dim), q=normal(batch, kv_heads * group, head_dim),
                    k=normal(*shape), v=normal(*shape),
                    table=torch.randperm(batch * pages, device="cuda").int().view(batch, pages),
                    lengths=torch.full((batch,), length, device="cuda", dtype=torch.int32))

    def eager(o):  # on keys that lie in a row already
        q = o["q"].view(batch, kv_heads * group, 1, head_dim)
        k, v = (o[n].view(batch, length, kv_heads, head_dim).transpose(1, 2) for n in "kv")
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=group > 1)
    return Row("paged_attention_decode", {"T": "bf16"},
               dict(batch=batch, kv_heads=kv_heads, group=group, pages=batch * pages, max_pages=pages,
                    page_size=page_size, head_dim=head_dim), operands, eager, compiled=False,
               bytes=4 * batch * length * kv_heads * head_dim, scalars=dict(scale=0.0))


def delta_operands(batch, tokens, k_heads, group, key_dim, value_dim):
    heads = k_heads * group
    return dict(o=empty(batch, tokens, heads, value_dim), q=normal(batch, tokens, k_heads, key_dim),
                k=normal(batch, tokens, k_heads, key_dim), v=normal(batch, tokens, heads, value_dim),
                g=-torch.rand(batch, tokens, heads, device="cuda"),
                beta=torch.rand(batch, tokens, heads, device="cuda").bfloat16())


def state(batch, heads, key_dim, value_dim):
    return normal(batch, heads, key_dim, value_dim, dtype="f32")


def fla(name, o, initial, **named):
    def load():
        import fla.ops.gated_delta_rule as ops
        call = getattr(ops, name)
        return {"fla": lambda: call(o["q"], o["k"], o["v"], o["g"], o["beta"], initial_state=initial,
                                    output_final_state=True, use_qk_l2norm_in_kernel=True, **named)}
    return optional(load)


def decode(batch, k_heads, group, key_dim, value_dim):
    shape = dict(batch=batch, tokens=1, k_heads=k_heads, group=group, key_dim=key_dim, value_dim=value_dim)
    heads = k_heads * group

    def eager(o):
        q, k = (F.normalize(o[n][:, 0].float(), dim=-1).repeat_interleave(group, 1) for n in "qk")
        s = o["state"] * o["g"][:, 0].exp()[..., None, None]
        u = (o["v"][:, 0] - (s * k[..., None]).sum(2)) * o["beta"][:, 0, :, None]
        s = s + k[..., None] * u[:, :, None]
        o["state"].copy_(s)
        return (s * q[..., None]).sum(2) * key_dim ** -0.5
    return Row("gated_delta_rule_decode", {"T": "bf16"}, shape,
               lambda: dict(delta_operands(**shape), state=state(batch, heads, key_dim, value_dim)), eager,
               lambda o: fla("fused_recurrent_gated_delta_rule", o, o["state"]),
               scalars=dict(scale=0.0, normalise=1))


def chunked(batch, tokens, k_heads, group, key_dim, value_dim):
    shape = dict(batch=batch, tokens=tokens, k_heads=k_heads, group=group, key_dim=key_dim, value_dim=value_dim)
    heads = k_heads * group
    return Row("gated_delta_rule", {"T": "bf16"}, shape,
               lambda: dict(delta_operands(**shape), initial=state(batch, heads, key_dim, value_dim),
                            final=state(batch, heads, key_dim, value_dim)), None,
               lambda o: fla("chunk_gated_delta_rule", o, o["initial"]), compiled=False,
               scalars=dict(scale=0.0, normalise=1))


ROWS = [
    *(gemm("gemm_nt", n, n, n) for n in (8192, 4096, 2048, 1024)),
    gemm("gemm_nt", 4096, 1024, 4096), gemm("gemm_nt", 256, 11008, 4096), gemm("gemm_nt", 128, 4096, 4096),
    gemm("gemm_nt", 4094, 4094, 4094), gemm("gemm_nt", 4096, 4096, 4096, dtype="f16"),
    gemm("gemm_nt", 4096, 4096, 4096, epilogue=True),
    *(gemm("gemm_small_m", m, n, k) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192))
      for m in (1, 8, 16, 32, 64)),
    gemm("gemm_small_m", 8, 14336, 4096, epilogue=True),
    *(attention(*shape, causal)
      for shape in ((1, 16384, 16, 1, 128), (4, 4096, 8, 4, 128), (4, 1024, 8, 4, 128), (4, 8192, 16, 1, 64),
                    (2, 8192, 8, 1, 256)) for causal in (0, 1)),
    *(paged(*shape) for shape in ((1, 8, 4, 128, 16, 32768), (16, 8, 4, 128, 16, 8192), (64, 8, 4, 128, 64, 4096),
                                  (32, 8, 8, 64, 16, 8192), (16, 4, 4, 256, 16, 8192))),
    *(decode(batch, 16, 2, 128, 128) for batch in (1, 8, 64, 256)),
    *(chunked(*shape, 16, 2, 128, 128) for shape in ((1, 1024), (1, 8192), (4, 4096), (1, 32768))),
]
