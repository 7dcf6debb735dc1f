"""Measures on this machine what the simulator needs, and describes it as a machine.

In reading order: `fits` (times → figures), `graphs` (times of commands on a GPU), `gpu`, `links`, `steps` (what is
measured there), `calibrate` (all of it); `samples` (steps compiled for this CPU), `cpu`.
"""

from dmc.calibration.calibrate import calibrate_gpu

__all__ = ["calibrate_gpu"]
