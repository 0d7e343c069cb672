# Sourced by the examples: a folder of its own to write in, `say`, and `run`, which shows a command and
# what it prints. HEDDLE names the executable; without it, the one in the path or in build/bin.
set -euo pipefail
export LC_ALL=C.UTF-8 NO_COLOR=1
unset COLUMNS

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
HEDDLE=$(realpath "${HEDDLE:-$(command -v heddle || echo "$repository/build/bin/heddle")}")
heddle() { "$HEDDLE" "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$repository/examples" "$work/examples"
cd "$work"

say() { printf '# %s\n' "$@"; }

# How long planning took differs from run to run: it is shown as "…".
without_timings() {
  sed -E -e 's/^(planned in +)[0-9.]+ [mun]?s/\1…/' -e 's/( plans? in )[0-9.]+ [mun]?s/\1…/' \
    -e '/  planned in$/,/^$/ s/ +[0-9.]+ [mun]?s$/  …/'
}

run() {
  local output code=0
  printf '$ %s\n' "$1"
  output=$(eval "$1" 2>&1) || code=$?
  if [[ -n $output ]]; then printf '%s\n' "$output" | without_timings; fi
  if ((code != 0)); then printf '(exit code %d)\n' "$code"; fi
  printf '\n'
}
