"""What `print` and a notebook show of a step.

* tables: tables as text and as HTML
* report: the base of reports
* ledger: what moves between ranks
* ledger_table: a ledger as tables
* memory: the memory of a step
* plan: the program of a rank, line by line
"""
