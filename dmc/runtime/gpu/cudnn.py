"""Attention by cuDNN, through NVIDIA's frontend, which only steps need whose tuning table chose it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from dmc.distribution import install
from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.program.code import Attention, Heads

Attend = Callable[[list[int], int], None]


def open_cudnn() -> Cudnn:
    """The library on the current device. Raises DmcError where it is not installed."""
    try:
        return Cudnn(importlib.import_module("cudnn"))
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        hint = f"{install('cudnn')}, or compile with a tuning table in which it was not chosen"
        raise DmcError("device 'cuda'", f"requires cuDNN for attention ({error})", hint) from error


class Cudnn:
    """cuDNN, with one handle."""

    def __init__(self, bindings: Any) -> None:
        self._cudnn = bindings
        # The frontend's own, and what its checks and other versions of it raise.
        self._errors = bindings.cudnnGraphNotSupportedError, RuntimeError, ValueError, TypeError, AttributeError
        self._handle = bindings.create_handle()

    def prepared(self, attention: Attention) -> Attend:
        """A function of the addresses of q, k, v, out, log-sum-exp and workspace, and of a stream, that computes it.

        Raises DmcError where this version of the library cannot.
        """
        try:
            graph, tensors = self._built(attention)
        except self._errors as error:
            raise self._refused(f"cannot compute {attention.dtype} {list(attention.q.shape)} ({error})") from error
        if (size := graph.get_workspace_size()) > attention.workspace.length:
            raise self._refused(f"needs a workspace of {size} bytes, and has {attention.workspace.length}")

        def attend(pointers: list[int], stream: int) -> None:
            *buffers, workspace = pointers
            try:
                self._cudnn.set_stream(handle=self._handle, stream=stream)
                graph.execute(dict(zip(tensors, buffers, strict=True)), workspace, handle=self._handle)
            except self._errors as error:
                raise self._refused(f"fails for {attention.dtype} {list(attention.q.shape)} ({error})") from error

        return attend

    @property
    def version(self) -> int:
        """The library's version, as it numbers them."""
        return self._cudnn.backend_version()

    def _built(self, attention: Attention) -> tuple[Any, list[Any]]:
        """The library's graph, and its tensors in the order of `Attention.places`."""
        types = self._cudnn.data_type
        dtype = getattr(types, dtype_of(attention.dtype).cudnn)
        graph = self._cudnn.pygraph(
            io_data_type=dtype,
            intermediate_data_type=types.FLOAT,
            compute_data_type=types.FLOAT,
            handle=self._handle,
        )

        def tensor(name: str, heads: Heads) -> Any:
            return graph.tensor(name=name, dim=list(heads.shape), stride=list(heads.strides), data_type=dtype)

        q, k, v = tensor("q", attention.q), tensor("k", attention.k), tensor("v", attention.v)
        options: dict[str, Any] = {"attn_scale": attention.scale, "generate_stats": True}
        if attention.causal:
            alignment = self._cudnn.diagonal_alignment.TOP_LEFT
            options |= {"diagonal_alignment": alignment, "diagonal_band_right_bound": 0}
        out, level = graph.sdpa(name="attention", q=q, k=k, v=v, **options)
        out.set_output(True).set_dim(list(attention.out.shape)).set_stride(list(attention.out.strides))
        batch, heads, rows, _ = attention.q.shape
        level.set_output(True).set_data_type(types.FLOAT)
        level.set_dim([batch, heads, rows, 1]).set_stride([heads * rows, rows, 1, 1])
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([self._cudnn.heur_mode.A])
        graph.check_support()
        graph.build_plans()
        return graph, [q, k, v, out, level]

    def _refused(self, fact: str) -> DmcError:
        hint = "compile with a tuning table that dmc tune makes here"
        return DmcError("attention", f"cuDNN {self.version} {fact}", hint)
