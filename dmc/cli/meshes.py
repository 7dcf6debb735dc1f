"""Meshes and plans in command-line syntax: `dp=2,tp=2` and `zero2+megatron:tp`."""

from __future__ import annotations

import dmc
from dmc.errors import PlanError
from dmc.mesh import Mesh
from dmc.plans import READY, Plan

_MESH_HINT = "write axes and sizes, as in --mesh dp=2,tp=4"


def mesh_from(text: str) -> Mesh:
    """`dp=2,tp=4` as a mesh, major axis first. Raises PlanError."""
    axes: dict[str, int] = {}
    for part in text.split(","):
        axis, _, size = part.partition("=")
        if not size.isdecimal() or axis in axes:
            raise PlanError(f"--mesh {text}", f"{part!r} is not an axis with a size", hint=_MESH_HINT)
        axes[axis] = int(size)
    return Mesh(**axes)  # pyright: ignore[reportArgumentType] - an axis called "links" is refused there


def plan_from(text: str, mesh: Mesh) -> Plan:
    """`zero2+megatron:tp` as a plan over the mesh: ready-made plans, each with its axis unless it is the default.

    Raises PlanError.
    """
    plan = dmc.plan(mesh)
    for part in text.split("+"):
        name, _, axis = part.partition(":")
        way = READY.get(name)
        if way is None:
            raise PlanError(f"--plan {text}", f"{name!r} is not a ready-made plan", hint=f"use {', '.join(READY)}")
        plan = plan.use(way(axis) if axis else way())
    return plan
