#!/usr/bin/env bash
# The steps of action.yml: `run` runs a2perf and writes the verdict, `comment` posts it on the pull request.
# Reads A2PERF_ACTION_* and the GITHUB_* and RUNNER_TEMP variables of a workflow.
set -euo pipefail

verdict_file="$RUNNER_TEMP/a2perf-verdict.md"
# hidden in the comment: a later run of the same job finds and replaces it
marker="<!-- a2perf ${A2PERF_ACTION_COMMAND} ${GITHUB_WORKFLOW:-} ${GITHUB_JOB:-} -->"
most_characters=60000 # a comment holds 65,536

write_output() { echo "$1=$2" >>"$GITHUB_OUTPUT"; }

run() {
	case "$A2PERF_ACTION_COMMAND" in
	check | rlops) ;;
	*)
		echo "::error::command is '$A2PERF_ACTION_COMMAND'; valid are check and rlops"
		exit 2
		;;
	esac
	# xargs splits like a shell but expands nothing: the arguments may come from a pull request
	local arguments=() log="$RUNNER_TEMP/a2perf-output.txt" comment status=0
	mapfile -t arguments < <(xargs -r -n1 printf '%s\n' <<<"$A2PERF_ACTION_ARGUMENTS")
	local started="$RUNNER_TEMP/a2perf-started" # comments of earlier steps are older
	touch "$started"
	# a checked submission's own text must not reach the runner as a command; only the random word ends this
	local word=""
	if [ "$A2PERF_ACTION_COMMAND" = check ]; then
		word=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
		echo "::stop-commands::$word"
	fi
	# the summary is written below; the command would write it a second time
	GITHUB_STEP_SUMMARY="" a2perf "$A2PERF_ACTION_COMMAND" "${arguments[@]}" 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
	if [ -n "$word" ]; then echo "::$word::"; fi

	comment=""
	if [ "$A2PERF_ACTION_COMMAND" = rlops ]; then
		comment=$(find . -maxdepth 3 -name '*_comment.md' -newer "$started" -print -quit)
	fi
	{
		echo "$marker"
		if [ -n "$comment" ]; then
			head -c "$most_characters" "$comment"
		else
			if [ "$status" = 0 ]; then echo "### a2perf $A2PERF_ACTION_COMMAND: passed"; else
				echo "### a2perf $A2PERF_ACTION_COMMAND: failed (exit status $status)"
			fi
			# output may quote the submission, so it must not be able to close the block
			printf '\n```text\n%s\n```\n' "$(head -c "$most_characters" "$log" | sed "s/\`\`\`/'''/g")"
		fi
	} >"$verdict_file"
	cat "$verdict_file" >>"$GITHUB_STEP_SUMMARY"
	write_output status "$status"
	write_output verdict-file "$verdict_file"
}

comment() {
	local number earlier
	number=$(python3 -c 'import json, os; print(json.load(open(os.environ["GITHUB_EVENT_PATH"])).get("pull_request", {}).get("number", ""))')
	if [ -z "$number" ]; then
		echo "not a pull request, so there is no comment"
		return
	fi
	local comments="repos/$GITHUB_REPOSITORY/issues/$number/comments"
	earlier=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$marker\")) | .id" | head -n1) || earlier=""
	if [ -n "$earlier" ]; then
		gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" --field "body=@$verdict_file"
	elif ! gh api --silent --method POST "$comments" --field "body=@$verdict_file"; then
		# the token of a pull request from a fork may only read; the summary has the verdict all the same
		echo "::warning::no permission to comment; give the job 'permissions: pull-requests: write'"
	fi
}

case "${1:-}" in
run) run ;;
comment) comment ;;
*)
	echo "usage: action.sh run|comment" >&2
	exit 2
	;;
esac
