"""Predicts a planned step: plays its lanes, events and collectives on a description of a machine."""

from dmc.simulator.simulate import simulate
from dmc.simulator.simulation import Simulation, Span

__all__ = ["Simulation", "Span", "simulate"]
