#!/bin/sh
# Migrates a folder of manifests in place. Usage: migrate.sh MANIFESTS CLUSTER...
# Exit codes: 0 done, 1 done with findings or pods that do not fit, 2 nothing is written.
manifests=$1
shift
drawbridge translate -f "$manifests" --cluster "$@" --strict -o json > translation.json
code=$?
[ "$code" -le 1 ] || exit 2
drawbridge translate -f "$manifests" --cluster "$@" --output-dir "$manifests" --overwrite -q > report.txt || exit
drawbridge check -f "$manifests" --cluster "$@" --strict -o json > verdicts.json || code=1
drawbridge simulate -f "$manifests" --cluster "$@" -o json > placements.json || code=1
exit "$code"
