#!/usr/bin/env bash
# The steps of action.yml. `install` provides bubblewrap, `run` runs a2perf without any token and writes the verdict;
# `comment` posts it in another job, which has a token and no code of the pull request.
# Reads A2PERF_ACTION_* and the GITHUB_* and RUNNER_TEMP variables of a workflow.
set -euo pipefail

verdict_file="$RUNNER_TEMP/a2perf-verdict.md"
most_bytes=60000 # a comment holds 65,536 characters

write_output() { echo "$1=$2" >>"$GITHUB_OUTPUT"; }

install() {
	command -v bwrap >/dev/null || { sudo apt-get update -qq && sudo apt-get install -qq -y bubblewrap; }
	if [ "$(sysctl -n kernel.apparmor_restrict_unprivileged_userns 2>/dev/null || echo 0)" = 1 ]; then
		sudo sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0
	fi
}

run() {
	local arguments=() words log="$RUNNER_TEMP/a2perf-output.txt" comment status=0
	case "$A2PERF_ACTION_COMMAND" in
	# by its name: a host without this level refuses instead of choosing a weaker one
	check) arguments=(--sandbox "$A2PERF_ACTION_SANDBOX") ;;
	rlops) ;;
	*)
		echo "::error::command is '$A2PERF_ACTION_COMMAND'; valid are check, rlops and comment"
		exit 2
		;;
	esac
	# xargs splits like a shell but expands nothing: the arguments may come from a pull request
	if ! words=$(xargs -r -n1 printf '%s\n' <<<"$A2PERF_ACTION_ARGUMENTS"); then
		echo "::error::the arguments cannot be split into words; a quote may be missing"
		exit 2
	fi
	if [ -n "$words" ]; then mapfile -t -O "${#arguments[@]}" arguments <<<"$words"; fi
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
		if [ -n "$comment" ]; then
			head -c "$most_bytes" "$comment"
		else
			if [ "$status" = 0 ]; then echo "### a2perf $A2PERF_ACTION_COMMAND: passed"; else
				echo "### a2perf $A2PERF_ACTION_COMMAND: failed (exit status $status)"
			fi
			# output may quote the submission, so it must not be able to close the block
			printf '\n```text\n%s\n```\n' "$(head -c "$most_bytes" "$log" | sed "s/\`\`\`/'''/g")"
		fi
	} >"$verdict_file"
	cat "$verdict_file" >>"$GITHUB_STEP_SUMMARY"
	write_output status "$status"
	write_output verdict-file "$verdict_file"
}

comment() {
	local number earlier body="$RUNNER_TEMP/a2perf-comment.md"
	number=$(python3 -I -c 'import json, os; print(json.load(open(os.environ["GITHUB_EVENT_PATH"])).get("pull_request", {}).get("number", ""))')
	if [ -z "$number" ]; then
		echo "not a pull request, so there is no comment"
		return
	fi
	# The artifact comes from the job that ran the pull request's code: text to show, and nothing else.
	export MARKER="<!-- a2perf ${GITHUB_WORKFLOW:-} ${A2PERF_ACTION_VERDICT} -->"
	{
		echo "$MARKER"
		head -c "$most_bytes" "$RUNNER_TEMP/verdict/a2perf-verdict.md"
	} >"$body"
	# Anybody can write a comment that begins with the marker, so only this token's own one is replaced.
	AUTHOR=$(gh api graphql -f query='{viewer{login}}' --jq .data.viewer.login) || AUTHOR="github-actions[bot]"
	export AUTHOR
	local comments="repos/$GITHUB_REPOSITORY/issues/$number/comments"
	local own='.[] | select(.user.login == env.AUTHOR) | select(.body | startswith(env.MARKER)) | .id'
	earlier=$(gh api --paginate "$comments" --jq "$own" | head -n1) || earlier=""
	if [ -n "$earlier" ]; then
		gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" --field "body=@$body"
	elif ! gh api --silent --method POST "$comments" --field "body=@$body"; then
		# the token of a pull request from a fork may only read; the summary has the verdict all the same
		echo "::warning::no permission to comment; give the job 'permissions: pull-requests: write'"
	fi
}

case "${1:-}" in
install) install ;;
run) run ;;
comment) comment ;;
*)
	echo "usage: action.sh install|run|comment" >&2
	exit 2
	;;
esac
