#!/usr/bin/env bash
# A legged robot in PyBullet, by random search: hours, with --quick under two minutes.
cd "$(dirname "$0")" && . ./suite.sh
if [ "$QUICK" = 1 ]; then
    bench pybullet/random_search.py QuadrupedLocomotion-SyntheticTrot-v0 42 --test-episodes=2 --videos=1 --iterations=3
    finish
fi
for seed in 42 1234 1337; do
    for env in QuadrupedLocomotion-SyntheticTrot-v0 QuadrupedLocomotion-DogPace-v0; do
        bench pybullet/random_search.py "$env" "$seed" --iterations=2000
    done
done
finish
