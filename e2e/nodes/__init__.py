"""Simulated nodes: Node objects, a stand-in for the kubelet, node drivers, a device plugin."""
