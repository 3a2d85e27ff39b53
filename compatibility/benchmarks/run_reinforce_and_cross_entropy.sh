#!/usr/bin/env bash
# Policy gradients and evolution on classic control: under an hour, with --quick under a minute.
cd "$(dirname "$0")" && . ./suite.sh
if [ "$QUICK" = 1 ]; then
    bench spinup/reinforce.py CartPole-v1 42 --test-episodes=5 --videos=0 --episodes=150
    bench spinup/cross_entropy.py CartPole-v1 42 --test-episodes=5 --videos=0 --iterations=5
    finish
fi
for seed in 42 1234 1337; do
    for env in CartPole-v1 Acrobot-v1; do
        bench spinup/reinforce.py "$env" "$seed" --episodes=5000
        bench spinup/cross_entropy.py "$env" "$seed" --iterations=200
    done
done
finish
