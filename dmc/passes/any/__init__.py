"""Checks of a module in any form.

* verify_form: is the module in this form?
* verify: is the step proven to be safe?
"""
