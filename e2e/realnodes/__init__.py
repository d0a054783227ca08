"""Real nodes: kubelet, containerd, runc and kube-proxy in namespaces that the run makes."""
