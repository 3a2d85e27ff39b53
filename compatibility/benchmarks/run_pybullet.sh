#!/usr/bin/env bash
# The documented name of run_random_search_quadruped.sh: random search on the quadruped robot
echo "run_pybullet.sh: random search on the quadruped robot"
exec "$(dirname "$0")/run_random_search_quadruped.sh" "$@"
