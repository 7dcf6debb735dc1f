"""Form scheduled → form planned: one program per rank, on byte ranges, with events.

* plan_memory: the address of every value
* lower_to_plan: one program for all ranks
* place_events: lanes wait for each other where their accesses conflict
"""
