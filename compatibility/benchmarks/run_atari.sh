#!/usr/bin/env bash
# The documented name of run_linear_search_atari.sh: linear search on Pong, Breakout and SpaceInvaders
echo "run_atari.sh: linear search on Pong, Breakout and SpaceInvaders"
exec "$(dirname "$0")/run_linear_search_atari.sh" "$@"
