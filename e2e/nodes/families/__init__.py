"""Defines what each driver family publishes and which configurations it accepts."""
