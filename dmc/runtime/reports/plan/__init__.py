"""The program of a rank, line by line.

* lines: launches, moves and collectives, with their events
* table: lines as a table
* report: as a report
"""
