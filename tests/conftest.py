"""Settings of all tests."""

from hypothesis import settings

# No test asserts a duration: on a busy machine, a deadline fails at random.
settings.register_profile("drawbridge", deadline=None)
settings.load_profile("drawbridge")
