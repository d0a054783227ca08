"""Contains the scenarios: one function shows one behaviour on a real control plane."""
