"""Predicts the time of a planned step: simulates its lanes, events and collectives on a machine description."""

from dmc.simulator.simulate import simulate
from dmc.simulator.simulation import Simulation, Span

__all__ = ["Simulation", "Span", "simulate"]
