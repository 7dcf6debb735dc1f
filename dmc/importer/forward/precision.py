"""The type in which each operation of a forward pass runs under `precision="bf16-mixed"`.

The lists are those of `torch.autocast` for CUDA (PyTorch documentation, "Automatic Mixed Precision package", op
reference), on every target, so that a step means the same everywhere: matrix products in bf16; softmax, norms,
losses, transcendental functions and factorisations in f32; operations with several inputs in the widest of their types.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from dmc.importer.composites.base import NAMESPACE


class Precision(Enum):
    """fp32 and bf16: everything in that type. bf16-mixed: f32 state, chosen operations in bf16."""

    FP32 = "fp32"
    BF16 = "bf16"
    BF16_MIXED = "bf16-mixed"


NARROW = frozenset(
    "_convolution addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d"
    " conv_transpose2d conv_transpose3d convolution gru linalg_multi_dot linear lstm matmul mm mv prelu rnn_tanh"
    " rnn_relu scaled_dot_product_attention".split()
)
WIDE = frozenset(
    "__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cdist cosh"
    " cosine_embedding_loss cosine_similarity cross_entropy_loss cumprod cumsum dist erfinv exp expm1 group_norm"
    " hinge_embedding_loss huber_loss instance_norm kl_div l1_loss layer_norm linalg_vector_norm log log10 log1p log2"
    " log_softmax logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss2d"
    " nll_loss_nd norm nuclear_norm poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss"
    " soft_margin_loss softmax softmin softplus sum tan triplet_margin_loss".split()
)
# PyTorch has none in narrow types; for a CPU `torch.autocast` computes most of them in f32.
FACTORISATIONS = frozenset(
    "_linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky cholesky_inverse cholesky_solve"
    " geqrf linalg_cholesky_ex linalg_eigh linalg_householder_product linalg_inv_ex linalg_lu linalg_lu_factor_ex"
    " linalg_lu_solve linalg_qr linalg_solve_triangular ormqr triangular_solve".split()
)
WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cat cross dot grid_sample grid_sampler index_put scatter_add stack"
    " tensordot".split()
)

# Composites that stand in the exported graph, and the operations whose types they take.
_LIKE = {
    **dict.fromkeys(("grouped_product", "flex_scores"), "bmm"),
    "expert_order": "sort",
    **dict.fromkeys(("dispatch", "combine"), "index_select"),
}


def autocast(target: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of an ATen operation with floating tensors cast according to the lists above."""
    if not isinstance(target, OpOverload) or target.namespace not in ("aten", NAMESPACE):
        return args, kwargs
    name = target.overloadpacket.__name__
    if name == "flex_attend":
        # Of queries, keys and values; scores that were modified, or what is added to them, stay in f32.
        return (*autocast(torch.ops.aten.bmm.default, args[:3], {})[0], *args[3:]), kwargs
    if target.namespace == NAMESPACE:
        # Others were matched in the exported graph: their parts include powers, in f32.
        name = _LIKE.get(name, "pow")
    dtype = _chosen_type(name, args, kwargs)
    if dtype is None:
        return args, kwargs

    def cast(value: torch.Tensor) -> torch.Tensor:
        narrows = value.dtype in (torch.float32, torch.bfloat16, torch.float16)
        return value.to(dtype) if narrows and value.dtype != dtype else value

    return pytree.tree_map_only(torch.Tensor, cast, (args, kwargs))


def _chosen_type(name: str, args: Any, kwargs: Any) -> torch.dtype | None:
    if name in NARROW or (name == "einsum" and _is_product(args)):
        return torch.bfloat16
    if name in WIDE or name in FACTORISATIONS:
        return torch.float32
    if name not in WIDEST:
        return None
    types = {leaf.dtype for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
    return torch.float32 if torch.float32 in types else None


def _is_product(args: Any) -> bool:
    """Of several tensors PyTorch makes matrix products; of one a view or a sum."""
    return sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(args)) > 1
