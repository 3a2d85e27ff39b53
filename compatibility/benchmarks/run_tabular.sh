#!/usr/bin/env bash
# The documented name of run_q_learning_and_sarsa.sh: Q-learning and SARSA on FrozenLake and CliffWalking
echo "run_tabular.sh: Q-learning and SARSA on FrozenLake and CliffWalking"
exec "$(dirname "$0")/run_q_learning_and_sarsa.sh" "$@"
