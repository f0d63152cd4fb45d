# SPDX-License-Identifier: Apache-2.0
"""flash-linear-attention as its users call it: l2norm and the gated delta rule, forward and backward, held against
FLA's own step-by-step reference. Where FLA refuses the backward pass of its gated delta rule, as it does on Hopper with
Triton 3.4 to 3.7.0, whose code for it is wrong, that is forward only, and the answer says so. Prints one JSON object.
CONFIGS=N keeps N configs a tuner, to be quick."""

import gc
import json
import os
import time

import torch
import torch.nn.functional as F

start = time.perf_counter()
from fla.modules.l2norm import l2norm  # noqa: E402
from fla.ops.gated_delta_rule import chunk_gated_delta_rule  # noqa: E402
from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule  # noqa: E402
from fla.utils import device  # noqa: E402

imported = time.perf_counter() - start
keep = int(os.environ.get("CONFIGS", "0"))
if keep:
    from triton.runtime.autotuner import Autotuner

    for tuner in [thing for thing in gc.get_objects() if isinstance(thing, Autotuner)]:
        tuner.configs = tuner.configs[:keep]

if device != "cuda":
    print(json.dumps({"device": device, "right": False}))
    raise SystemExit(0)

torch.manual_seed(0)
B, T, H, D = 1, 128, 2, 64
x = torch.randn(B, T, H, D, device="cuda", dtype=torch.float32, requires_grad=True)
normed = l2norm(x)
normed.sum().backward()
norm_error = (normed - F.normalize(x, dim=-1)).abs().max().item()


def inputs(dtype):
    torch.manual_seed(1)
    q, k, v = (torch.randn(B, T, H, D, device="cuda") for _ in range(3))
    beta, g = torch.rand(B, T, H, device="cuda"), F.logsigmoid(torch.rand(B, T, H, device="cuda"))
    tensors = [F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, g, beta]
    return [t.to(torch.float32 if index == 3 else dtype).requires_grad_() for index, t in enumerate(tensors)]


start = time.perf_counter()
q, k, v, g, beta = inputs(torch.bfloat16)
out, state = chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True)
refused = None
try:
    out.float().square().sum().backward()
except RuntimeError as error:
    if "produces incorrect results" not in str(error):
        raise
    refused = str(error)
torch.cuda.synchronize()
ran = time.perf_counter() - start
rq, rk, rv, rg, rbeta = inputs(torch.float32)
wanted, wanted_state = naive_recurrent_gated_delta_rule(rq, rk, rv, rbeta, rg, output_final_state=True)
wanted.float().square().sum().backward()


def apart(got, want):
    return ((got.float() - want.float()).norm() / want.float().norm()).item()


errors = {"out": apart(out, wanted), "state": apart(state, wanted_state)}
if refused is None:
    for name, got, want in zip("dq dk dv dg dbeta".split(), (q, k, v, g, beta), (rq, rk, rv, rg, rbeta)):
        errors[name] = apart(got.grad, want.grad)
print(
    json.dumps(
        {
            "device": device,
            "right": norm_error < 1e-5 and all(errors[name] < 0.02 for name in ("out", "state")),
            "import_s": round(imported, 2),
            "run_s": round(ran, 2),
            "norm_error": norm_error,
            "backward": f"refused by FLA: {refused}" if refused else "done",
            "errors": {name: round(value, 4) for name, value in errors.items()},
        }
    )
)
