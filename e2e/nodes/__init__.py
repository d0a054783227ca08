"""Simulates nodes: Node objects, kubelet, node drivers and a device plugin."""
