"""How hypothesis runs examples that share one MLIR context: making another takes longer than many an example."""

from hypothesis import HealthCheck, settings

IN_ONE_CONTEXT = settings(
    deadline=None, suppress_health_check=(HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
)
