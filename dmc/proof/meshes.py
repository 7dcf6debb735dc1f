"""V3 for the mesh: it has a rank for each program."""

from __future__ import annotations

from dmc.errors import PlanError, ProofError
from dmc.mesh import Mesh
from dmc.program import Job

# How a mesh of whose axes one has this name says how its ranks are connected.
_RESERVED = "links"


def mesh_of(job: Job) -> Mesh:
    """The ranks of a job along their axes. Raises ProofError unless each has one program."""
    if _RESERVED in job.mesh:
        raise ProofError("V3", "mesh", f"axis name '{_RESERVED}' is reserved", "rename the axis")
    try:
        mesh = Mesh(links=None, **job.mesh)
    except PlanError as error:
        raise ProofError("V3", error.place, error.fact, error.hint) from error
    if mesh.size != job.size:
        axes = ", ".join(f"{axis}={size}" for axis, size in mesh.items())
        fact = f"the mesh {axes} has {mesh.size} ranks, but there are programs for {job.size}"
        raise ProofError("V3", None, fact, "give each rank of the mesh one program")
    return mesh
