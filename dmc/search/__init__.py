"""The search for a plan: `find(problem)` says how a step is best split over the ranks of a machine, by simulation.

* problem: the step, the machine and the cap
* layers: layers that repeat, and models with fewer of them
* facts: what is known of a model before it is planned: its weights, blocks, norms, heads and experts
* candidates: the plans that are considered, and why some cannot be
* trial: one plan, made and simulated
* shallow: a whole plan's time and memory, from plans of models with few layers
* bounds: what no plan of a kind can be faster than, or smaller
* ranking: the best candidate by trials of as few as possible
* finals: whole plans of the best
* search: the plan that is found
* question, otherwise: what a question about it asks for: other candidates, other places for single weights
* why, answer: the plan found beside the best that does otherwise
* automatic: `plan="auto"`
* refusal: what does not fit, and what would
* explained: what each line of a plan changes
* written: a plan as the lines that make it
"""

from __future__ import annotations

from dmc.search.answer import Answer
from dmc.search.automatic import problem_of
from dmc.search.explained import Explained, explain
from dmc.search.problem import Problem
from dmc.search.search import Found, find
from dmc.search.why import check_questions, why, why_not
from dmc.search.written import written

__all__ = [
    "Answer",
    "Explained",
    "Found",
    "Problem",
    "check_questions",
    "explain",
    "find",
    "problem_of",
    "why",
    "why_not",
    "written",
]
