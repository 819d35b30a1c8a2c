"""What holds for all tests: nothing is decided by chance or by how busy the machine is."""

from hypothesis import HealthCheck, settings

# The same examples in every run, however long they take. To look for new ones: --hypothesis-profile=default, and
# --hypothesis-seed=0, 1, 2, ...
settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("same")
