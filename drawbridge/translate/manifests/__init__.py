"""Translation of manifests: workloads, Argo workflows, quotas."""
