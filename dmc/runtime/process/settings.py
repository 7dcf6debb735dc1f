"""Settings of running a step, from environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dmc.errors import DmcError

_GRAPH, _PATIENCE, _DIRECT = "DMC_CUDA_GRAPH", "DMC_PATIENCE_S", "DMC_DIRECT_COPIES"


@dataclass(frozen=True)
class RunSettings:
    """is_captured: whether a GPU replays a step as one CUDA graph; if not, its commands are issued one by one.

    patience_s: the time after which ranks end if one of them is gone, or does not reach a step. is_direct: whether the
    GPUs of a host copy out of each other's memory; if not, NCCL moves everything.
    """

    is_captured: bool = True
    patience_s: float = 30.0
    is_direct: bool = True

    @staticmethod
    def of(environ: Mapping[str, str]) -> RunSettings:
        """The settings in DMC_CUDA_GRAPH, DMC_DIRECT_COPIES (0 or 1) and DMC_PATIENCE_S (seconds).

        Raises DmcError for invalid values.
        """
        default = RunSettings()
        switches = {name: environ.get(name, "1") for name in (_GRAPH, _DIRECT)}
        patience = environ.get(_PATIENCE, f"{default.patience_s:.0f}")
        for name, value in switches.items():
            if value not in ("0", "1"):
                raise DmcError(f"the variable {name}", f"is {value!r}", hint="set it to 0 or 1, or unset it")
        if not patience.isdecimal() or int(patience) == 0:
            raise DmcError(
                f"the variable {_PATIENCE}",
                f"is {patience!r}",
                hint="set it to an integer number of seconds, such as 120",
            )
        return RunSettings(switches[_GRAPH] == "1", float(patience), switches[_DIRECT] == "1")
