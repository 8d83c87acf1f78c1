"""Settings for all tests."""

from hypothesis import HealthCheck, settings

settings.register_profile("salcli", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("salcli")
