"""The names of the files that make a folder a kustomization or a Helm chart, and of a build."""

from typing import Final

BUILD_NAME: Final = "<build>"  # in the folder that was built
CHART: Final = "Chart.yaml"
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
