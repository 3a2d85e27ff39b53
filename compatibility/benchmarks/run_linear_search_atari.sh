#!/usr/bin/env bash
# Games of the Arcade Learning Environment: days, with --quick under two minutes. Needs ale-py (requirements.txt).
cd "$(dirname "$0")" && . ./suite.sh
if ! "${PYTHON:-python}" -c "import ale_py" 2>/dev/null; then
    echo "run_linear_search_atari.sh: ale-py is not installed; pip install -r requirements.txt" >&2
    exit 2
fi
if [ "$QUICK" = 1 ]; then
    bench atari/linear_search.py ALE/Pong-v5 42 --test-episodes=1 --videos=0 --iterations=1 --steps=300
    finish
fi
for seed in 42 1234 1337; do
    for env in ALE/Pong-v5 ALE/Breakout-v5 ALE/SpaceInvaders-v5; do
        bench atari/linear_search.py "$env" "$seed" --iterations=3000
    done
done
finish
