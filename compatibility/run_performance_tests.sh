#!/usr/bin/env bash
# Runs every performance test of conf/performance, one after another, and resumes after an interruption.
# Options are passed on: ./run_performance_tests.sh --skip 'FetchReach/*' --n-jobs 2
set -o pipefail
cd "$(dirname "$0")" || exit 3
export OMP_NUM_THREADS=1
{ date; "${PYTHON:-python}" -m a2perf perftest run "$@"; } 2>&1 | tee -a "${PERFORMANCE_TEST_LOG:-performance-test_results.log}"
exit "${PIPESTATUS[0]}"
