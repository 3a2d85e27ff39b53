#!/usr/bin/env bash
# Tabular value learning on small environments: a few minutes, with --quick a few seconds.
cd "$(dirname "$0")" && . ./suite.sh
if [ "$QUICK" = 1 ]; then
    bench tabular/q_learning.py FrozenLake-v1 42 --test-episodes=5 --videos=0 --episodes=3000
    bench tabular/sarsa.py CliffWalking-v1 42 --test-episodes=5 --videos=0 --episodes=500
    finish
fi
for seed in 42 1234 1337; do
    for env in FrozenLake-v1 CliffWalking-v1; do
        bench tabular/q_learning.py "$env" "$seed" --episodes=20000
        bench tabular/sarsa.py "$env" "$seed" --episodes=20000
    done
done
finish
