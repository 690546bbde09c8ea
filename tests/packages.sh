#!/bin/sh
# Installs the Debian packages of packages.txt that are missing, where this user may; else says what to run, and fails.
set -eu
PYTHON=${PYTHON:-python3}

missing=
while read -r package probe; do
    case $package in '' | '#'*) continue ;; esac
    if ! eval "$probe" >/dev/null 2>&1 </dev/null; then missing="$missing $package"; fi
done <"${1:-$(dirname "$0")/packages.txt}"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=
elif sudo -n true 2>/dev/null; then
    sudo=sudo
else
    echo "Debian packages are missing that the tests need. Run: sudo apt-get update && sudo apt-get install -y$missing" >&2
    exit 1
fi
echo "installing Debian packages that the tests need:$missing"
# The words of $sudo and $missing are meant to be split.
# shellcheck disable=SC2086
$sudo apt-get update -qq </dev/null
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing </dev/null
