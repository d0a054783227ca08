"""Small programs that show defects of Kubernetes: red while open, green when mended.

    python -m e2e.upstream.defects                      # starts a stock control plane of 1.36
    python -m e2e.upstream.defects --kubernetes 1.37
    python -m e2e.upstream.defects --ours               # with Drawbridge's scheduler instead
    python -m defects --kubeconfig FILE                 # any cluster; in the folder above this

The last command needs this folder, Python, PyYAML and kubectl, and nothing else of the repository:
only `rig` imports more. Nodes and drivers are objects that a program writes, so no kubelet and no
hardware takes part. `defects.yaml` says what each defect is, where it was seen red or green, and
which part of Drawbridge answers it.
"""
