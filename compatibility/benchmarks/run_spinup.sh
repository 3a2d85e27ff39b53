#!/usr/bin/env bash
# The documented name of run_reinforce_and_cross_entropy.sh: REINFORCE and the cross-entropy method on CartPole and Acrobot
echo "run_spinup.sh: REINFORCE and the cross-entropy method on CartPole and Acrobot"
exec "$(dirname "$0")/run_reinforce_and_cross_entropy.sh" "$@"
