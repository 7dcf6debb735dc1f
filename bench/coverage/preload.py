"""Imported by the process from which the others are forked."""

from bench.coverage import modules as modules
from bench.coverage import operators as operators
from bench.coverage import sweep as sweep
