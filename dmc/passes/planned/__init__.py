"""Form scheduled → form planned: one program for each rank, on byte ranges, with events.

* plan_memory: where every value lies
* lower_to_plan: one program for each rank
* place_events: lanes wait for each other where they touch the same bytes
"""
