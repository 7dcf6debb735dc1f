"""The memory of a step.

* report: as a report
* table: as tables
* plot: as pictures, and as a page
"""
