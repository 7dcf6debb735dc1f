"""dm-verify-form."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import forms
from dmc._mlir import ir
from dmc.passes.base import Pass


@dataclass(frozen=True)
class VerifyForm(Pass):
    """Changes nothing; fails where the module is not in the form named `form`."""

    name = "dm-verify-form"
    form: str

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for the first violation, PipelineError if there is no such form."""
        forms.verify_form(module, forms.form_named(self.form))
