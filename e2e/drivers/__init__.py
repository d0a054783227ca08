"""Runs the programs of DRA drivers and device plugins that others wrote, on real kubelets."""
